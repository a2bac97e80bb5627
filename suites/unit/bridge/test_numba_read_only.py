"""numba_kernel: a kernel never changes a JAX array, whatever it does to its inputs."""

import jax
import jax.numpy as jnp
import numba
import numpy as np
import pytest

from bridge import numba_kernel
from suites.unit.bridge import kernels
from suites.unit.bridge.entries import call_in

Spec = jax.ShapeDtypeStruct
OUT = Spec((4,), np.float32)


@numba.njit
def flat(x, out):
    x.flat[0] = 9
    out[:] = 1


@numba.njit(parallel=True)
def in_parallel(x, out):
    for i in numba.prange(out.size):
        x.flat[i] = 9
        out[i] = 1


@numba.njit
def recursive(array, depth):
    if depth > 0:
        recursive(array, depth - 1)
    else:
        array.flat[0] = 9


@numba.njit
def through_recursion(x, out):
    recursive(x, 3)
    out[:] = 1


def copied(call, *inputs):
    """The inputs that the kernel of a wrapper gets copies of."""
    return tuple(index for index, _ in call_in(call, *inputs).aliases)


@pytest.mark.parametrize("kernel", [flat, in_parallel, through_recursion], ids=lambda kernel: kernel.py_func.__name__)
def test_a_write_to_an_input_changes_a_copy(kernel):
    x = jnp.arange(4.0)
    call = numba_kernel(kernel, OUT)
    np.testing.assert_array_equal(call(x), np.ones(4))
    np.testing.assert_array_equal(jax.jit(lambda x: call(x) + x)(x), [1, 2, 3, 4])
    np.testing.assert_array_equal(jax.lax.fori_loop(0, 3, lambda _, c: call(x) + c, x), x + 3)
    np.testing.assert_array_equal(x, [0, 1, 2, 3])


@pytest.mark.parametrize("method", [None, "sequential"])
def test_a_write_to_an_input_changes_a_copy_of_each_element_of_a_batch(method):
    xs, y = jnp.arange(12.0).reshape(3, 4), jnp.arange(4.0)

    @numba.njit
    def both(x, y, out):
        out[:] = x + y
        y.flat[0] = 100
        x.flat[0] = 100

    call = numba_kernel(both, OUT, vmap_method=method)
    np.testing.assert_array_equal(jax.vmap(call, (0, None))(xs, y), np.arange(12.0).reshape(3, 4) + np.arange(4.0))
    np.testing.assert_array_equal(xs, np.arange(12.0).reshape(3, 4))
    np.testing.assert_array_equal(y, np.arange(4.0))


def test_a_copied_input_does_not_need_a_derivative():
    @numba.njit
    def signs(x, out):
        x.flat[0] = 1
        for i in range(4):
            out[i] = x[i] > 0

    call = numba_kernel(signs, Spec((4,), np.int32))
    gradient = jax.grad(lambda x: (call(x) * x).sum())(jnp.arange(4.0))
    np.testing.assert_array_equal(gradient, [1, 1, 1, 1])


@numba.njit
def reads(x, out):
    out[0] = x[1:].sum() + x.flat[2] + x.reshape(2, 2)[1, 1]


@pytest.mark.skipif(numba.version_info < (0, 66), reason="LLVM does not show it: the kernels get copies")
def test_what_only_reads_an_input_gets_no_copy_and_what_cannot_be_followed_does():
    @numba.njit
    def reads_in_python(x, out):
        with numba.objmode(total="float64"):
            total = float(x.sum())
        out[:] = total

    for kernel, expected in ((kernels.double_parallel, ()), (reads, ()), (reads_in_python, (0,))):
        assert copied(numba_kernel(kernel, OUT), jnp.arange(4.0)) == expected
