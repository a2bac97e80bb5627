"""numba_kernel: dtypes, ranks and containers of inputs and outputs, and the forms a kernel may have."""

import jax
import jax.numpy as jnp
import numba
import numpy as np
import pytest

from bridge import KernelCompileError, numba_kernel
from bridge.kernel.language import CPU_DTYPES
from suites.unit.bridge import kernels

Spec = jax.ShapeDtypeStruct


@numba.njit
def copy_each(x, out):
    for i in range(x.size):
        out[i] = x[i]


@pytest.mark.parametrize("dtype", [each for each in CPU_DTYPES if "float16" not in each])  # these: test_numba_half
def test_every_dtype_of_numba_passes_through_bit_for_bit(x64, dtype):
    bits = np.random.default_rng(0).bytes(960)
    x = np.frombuffer(bits, np.uint8) % 2 == 1 if dtype == "bool" else np.frombuffer(bits, dtype)
    out = numba_kernel(copy_each, Spec(x.shape, dtype))(x)
    assert out.dtype == dtype
    assert np.asarray(out).tobytes() == x.tobytes()


def test_empty_arrays():
    assert numba_kernel(kernels.copy, Spec((2, 0, 2), np.float32))(jnp.zeros((2, 0, 2))).shape == (2, 0, 2)


def test_results_have_the_container_of_outs():
    @numba.njit
    def split(x, positive, negative):
        for i in range(x.size):
            positive[i], negative[i] = max(x[i], 0), min(x[i], 0)

    x, spec = jnp.array([-1.0, 2.0]), Spec((2,), np.float32)
    assert isinstance(numba_kernel(kernels.double, spec)(x), jax.Array)
    assert len(numba_kernel(kernels.double, [spec])(x)) == 1
    for outs in ([spec, spec], (spec, spec), {"p": {"q": spec}, "n": [spec]}):
        result = numba_kernel(split, outs)(x)
        assert jax.tree.structure(result) == jax.tree.structure(outs)
        first, second = jax.tree.leaves(result)
        np.testing.assert_array_equal(first, [0, 2])
        np.testing.assert_array_equal(second, [-1, 0])


def test_arrays_in_another_memory_order_reach_the_kernel_row_major():
    @numba.njit
    def ravel(x, out):
        for i in range(x.shape[0]):
            for j in range(x.shape[1]):
                out[i * x.shape[1] + j] = x[i, j]

    x = jnp.arange(6.0).reshape(2, 3)
    wrapped = numba_kernel(ravel, Spec((6,), np.float32))
    np.testing.assert_array_equal(jax.jit(lambda x: wrapped(x.T))(x), np.asarray(x).T.ravel())
    np.testing.assert_array_equal(numba_kernel(ravel, x.ravel())(np.asfortranarray(x)), np.arange(6))


def test_explicit_signatures_bind_the_dtypes():
    @numba.njit(["void(float32[:], float32[:])", "void(int32[::1], int32[::1])"])
    def double(x, out):
        for i in range(x.size):
            out[i] = 2 * x[i]

    for dtype in (np.float32, np.int32):
        np.testing.assert_array_equal(numba_kernel(double, Spec((2,), dtype))(np.ones(2, dtype)), [2, 2])
    with pytest.raises(KernelCompileError, match=r"declared for \(array\(float32, 1d, A\).*called with \(array\(int8"):
        numba_kernel(double, Spec((2,), np.int8))(np.ones(2, np.int8))


def test_variadic_parameters_work():
    @numba.njit
    def count(*arrays):
        arrays[-1][0] = len(arrays)

    assert float(numba_kernel(count, Spec((1,), np.float32))(jnp.ones(1), jnp.ones(2))[0]) == 3
