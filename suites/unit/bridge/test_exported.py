"""Exported programs run their own kernels in other processes, or none: those they hold, and those defined there."""

import jax
import jax.export
import numpy as np
import pytest

from bridge import export_checks, jax_kernel, warp_callable
from suites.kernels.warp.blocks import wp
from suites.unit.bridge import test_warp_callable, toy_c, warp_kernels
from suites.unit.bridge.test_identity import X, wrapped
from suites.unit.processes import output

SPEC = jax.ShapeDtypeStruct(X.shape, X.dtype)
ADD = "void add(int64_t size, const float* x, float* out) { for (int64_t i = 0; i < size; i++) out[i] = x[i] + 1; }"
KINDS = ("array", "overload")


def of_warp(x):
    """Kernels with a value, of a generic type, and differentiated in a batch."""
    logistic = jax_kernel(warp_kernels.logistic, launch_dims=4, output_dims=4)
    gradient = jax.grad(lambda x: logistic(x[:1], x)[0].sum())
    return (
        jax_kernel(warp_kernels.scale)(x, 3.0)[0]
        + jax_kernel(warp_kernels.scale_any)(x, 2.0)[0]
        + jax.vmap(gradient)(x[None])[0]
    )


def other_scale():
    """A Warp kernel of the same name as one of these."""

    @warp_kernels.forward_only
    def scale(x: warp_kernels.VECTOR, factor: float, out: warp_kernels.VECTOR):
        i = wp.tid()
        out[i] = factor * x[i] + 1.0

    return scale


def first_of(function):
    call = warp_callable(function)
    return lambda x: call(x)[0]


def calls():
    """By the name of its kernel: a call, which defines the kernel."""
    found = {f"Numba kernel 'kernel', {kind}": wrapped(kind, 2) for kind in KINDS}
    if toy_c.COMPILER is not None:
        found["C function 'add'"] = toy_c.c_kernel(ADD, "add", SPEC)
    return {**found, "Warp kernel": of_warp, "Warp function": first_of(test_warp_callable.stencils)}


OTHER_PROCESS = """
import pathlib, sys
import jax, jax.export, numpy as np
import bridge

X = np.arange(1, 5, dtype=np.float32)
programs = {path.name: path.read_bytes() for path in sorted(pathlib.Path(sys.argv[1]).iterdir())}

def attempt(title):
    for name, content in programs.items():
        try:
            print(title, name, jax.export.deserialize(content).call(X).tolist(), sep="|")
        except jax.errors.JaxRuntimeError as error:
            print(title, name, str(error).partition("BridgeError: ")[2].splitlines()[0], sep="|")

attempt("nothing")
from suites.unit.bridge import test_exported, toy_c
keep = [test_exported.wrapped(kind, 3) for kind in test_exported.KINDS]
if toy_c.COMPILER is not None:
    keep.append(toy_c.c_kernel(test_exported.ADD.replace("+ 1", "- 1"), "add", test_exported.SPEC))
keep.append(bridge.jax_kernel(test_exported.other_scale()))
keep.append(bridge.warp_callable(test_exported.test_warp_callable.zeroes))
attempt("another")
keep.append(test_exported.calls())
test_exported.of_warp(X)
attempt("same")
"""


def test_a_program_without_code_runs_where_the_same_kernels_are_defined_and_not_before(tmp_path):
    expected = {}
    for name, call in calls().items():
        program = jax.export.export(jax.jit(call), platforms=["cpu"], disabled_checks=export_checks())(SPEC)
        (tmp_path / name).write_bytes(program.serialize())
        expected[name] = str(np.asarray(program.call(X)).tolist())
    lines = [line.split("|") for line in output("-c", OTHER_PROCESS, tmp_path).splitlines()]
    found = {(title, name): said for title, name, said in lines}
    assert len(found) == 3 * len(expected) >= 9
    for name, result in expected.items():
        assert found["same", name] == result
        for title in ("nothing", "another"):
            holds_code = name.startswith(("Numba", "Warp kernel"))
            assert (found[title, name] == result) if holds_code else ("this program calls the " in found[title, name])
        if not holds_code:
            assert "has not defined. Call " in found["another", name]
            assert "The program does not hold its code: " in found["another", name]


def test_without_the_checks_of_the_bridge_jax_refuses_to_export():
    with pytest.raises(ValueError, match="bridge_cpu"):
        jax.export.export(jax.jit(wrapped("array", 2)), platforms=["cpu"])(SPEC)
