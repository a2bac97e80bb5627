"""Exported programs that hold no code run where their own kernels are defined, and none elsewhere."""

import jax
import jax.export
import numpy as np
import pytest

from bridge import export_checks, warp_callable
from suites.unit.bridge import test_warp_callable, toy_c
from suites.unit.bridge.test_identity import X, wrapped
from suites.unit.processes import output

SPEC = jax.ShapeDtypeStruct(X.shape, X.dtype)
ADD = "void add(int64_t size, const float* x, float* out) { for (int64_t i = 0; i < size; i++) out[i] = x[i] + 1; }"


def first_of(function):
    call = warp_callable(function)
    return lambda x: call(x)[0]


def calls():
    """By the name of its kernel: a call, which defines the kernel."""
    found = {"Warp function": first_of(test_warp_callable.stencils)}
    if toy_c.COMPILER is not None:
        found["C function 'add'"] = toy_c.c_kernel(ADD, "add", SPEC)
    return found


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
keep = [bridge.warp_callable(test_exported.test_warp_callable.zeroes)]
if toy_c.COMPILER is not None:
    keep.append(toy_c.c_kernel(test_exported.ADD.replace("+ 1", "- 1"), "add", test_exported.SPEC))
attempt("another")
keep.append(test_exported.calls())
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
    assert len(found) == 3 * len(expected)
    for name, result in expected.items():
        assert found["same", name] == result
        assert "this program calls the " in found["nothing", name]
        assert "has not defined. Call " in found["another", name]
        assert "The program does not hold its code: " in found["another", name]


def test_without_the_checks_of_the_bridge_jax_refuses_to_export():
    with pytest.raises(ValueError, match="bridge_cpu"):
        jax.export.export(jax.jit(wrapped("array", 2)), platforms=["cpu"])(SPEC)
