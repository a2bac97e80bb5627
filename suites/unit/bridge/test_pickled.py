"""Wrappers and operators go to other processes by pickle: by name where a module has the kernel, or by content."""

import copy
import ctypes
import pickle

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import bridge
from bridge import KernelTypeError
from suites.kernels.warp.blocks import wp
from suites.unit.bridge import kernels, warp_kernels
from suites.unit.bridge.kernels import like
from suites.unit.processes import output

cloudpickle = pytest.importorskip("cloudpickle", reason="cloudpickle is not installed")
X = jnp.arange(1.0, 5.0)
SPEC = jax.ShapeDtypeStruct(X.shape, X.dtype)


def launch(x: warp_kernels.VECTOR, out: warp_kernels.VECTOR):
    wp.launch(warp_kernels.scale, dim=x.shape, inputs=[x, 2.0], outputs=[out])


def generator(outs):
    return bridge.numba_kernel(kernels.double, outs[0])


def operator():
    made = bridge.XLACustomKernel("pickled", outs=like)
    made.def_numba_kernel(generator)
    return made


WRAPPERS = {
    "numba_kernel": (bridge.numba_kernel(kernels.double, SPEC), ()),
    "jax_kernel": (bridge.jax_kernel(warp_kernels.scale), (2.0,)),
    "warp_callable": (bridge.warp_callable(launch), ()),
    "XLACustomKernel": (operator(), ()),
}

RUN = """
import pickle, sys
for call, arguments in [each for path in sys.argv[1:] for each in pickle.load(open(path, "rb"))]:
    results = call(*arguments)
    print([float(each) for each in (results[0] if isinstance(results, list) else results)])
"""
MAIN = """
import sys, cloudpickle, jax, jax.numpy as jnp, numba, warp as wp, bridge
n = 4
@numba.njit
def half(x):
    return x / 2
@numba.njit
def halve(x, out):
    for i in range(n):
        out[i] = half(x[i])
@wp.func
def warp_half(x: float):
    return x / 2.0
@wp.kernel
def warp_halve(x: wp.array(dtype=float), out: wp.array(dtype=float)):
    i = wp.tid()
    out[i] = warp_half(x[i])
def launch(x: wp.array(dtype=float), out: wp.array(dtype=float)):
    wp.launch(warp_halve, dim=n, inputs=[x], outputs=[out])
operator = bridge.XLACustomKernel("halves", outs=lambda x: x)
operator.def_numba_kernel(lambda outs: bridge.numba_kernel(halve, outs[0]))
operator.def_vjp(lambda x, outs: (operator(x), None), lambda _, cotangents, outs: (cotangents[0] / 2,))
calls = [bridge.numba_kernel(halve, lambda x: x), bridge.jax_kernel(warp_halve), bridge.warp_callable(launch), operator]
x = jnp.arange(4.0)
for call in calls:
    call(x)
def work(x):
    return calls[0](x)
with open(sys.argv[1], "wb") as file:
    cloudpickle.dump([(call, (x,)) for call in [*calls, work]], file)
"""


def test_wrappers_of_modules_and_of_a_script_run_in_a_fresh_process(tmp_path):
    with open(tmp_path / "of modules", "wb") as file:
        pickle.dump([(call, (X, *values)) for call, values in WRAPPERS.values()], file)
    (tmp_path / "script.py").write_text(MAIN)
    output(tmp_path / "script.py", tmp_path / "of script")
    lines = output("-c", RUN, tmp_path / "of modules", tmp_path / "of script").splitlines()
    expected = ["[2.0, 4.0, 6.0, 8.0]"] * len(WRAPPERS) + ["[0.0, 0.5, 1.0, 1.5]"] * 5
    assert [line for line in lines if line.startswith("[")] == expected


@pytest.mark.parametrize("name", WRAPPERS)
def test_what_is_unpickled_computes_the_same(name):
    call, values = WRAPPERS[name]
    for each in (pickle.loads(cloudpickle.dumps(call)), copy.copy(call), copy.deepcopy([call])[0]):
        np.testing.assert_array_equal(jax.tree.leaves(each(X, *values))[0], 2 * X)


def test_a_process_that_has_the_wrapper_gets_that_one():
    call, _ = WRAPPERS["numba_kernel"]
    assert pickle.loads(pickle.dumps(call)) is copy.copy(call) is copy.deepcopy(call) is call


def test_a_copy_of_a_warp_kernel_is_another_kernel():
    """Warp copies kernels to make overloads of them."""
    bridge.jax_kernel(warp_kernels.scale)
    assert copy.copy(warp_kernels.scale) is not warp_kernels.scale
    assert vars(copy.copy(warp_kernels.scale)) == vars(warp_kernels.scale)


def test_a_kernel_that_no_other_process_can_import_is_refused():
    triton = pytest.importorskip("triton", reason="Triton is not installed")

    @triton.jit
    def nothing(x, out):
        pass

    with pytest.raises(KernelTypeError, match=r"<locals>\.nothing cannot be sent .* Define it at the top level"):
        cloudpickle.dumps(bridge.triton_kernel(nothing, SPEC, grid=1))


def test_functions_that_are_addresses_of_this_process_are_refused_and_copied():
    call = bridge.native_kernel(ctypes.CDLL(None).memcpy, like, lambda x, out: (out, x, x.nbytes))
    for module in (pickle, cloudpickle):
        with pytest.raises(KernelTypeError, match=r"native_kernel cannot send .* and call native_kernel there"):
            module.dumps(call)
    np.testing.assert_array_equal(copy.copy(call)(X), X)
    assert copy.deepcopy(call) is call
