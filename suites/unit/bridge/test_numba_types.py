"""numba_kernel: dtypes, ranks and containers of inputs and outputs, and the forms a kernel may have."""

import math

import jax
import jax.numpy as jnp
import numba
import numpy as np
import pytest

from bridge import KernelCompileError, SignatureError, numba_kernel
from bridge.languages.numba_cpu.njit import DTYPES
from suites.unit import processes
from suites.unit.bridge import kernels

Spec = jax.ShapeDtypeStruct


@pytest.fixture
def x64():
    with jax.enable_x64(True):
        yield


@pytest.mark.parametrize("dtype", DTYPES)
def test_every_dtype_of_numba_passes_through_bit_for_bit(x64, dtype):
    rng = np.random.default_rng(0)
    values = (
        np.frombuffer(rng.bytes(16 * 60), np.uint8) % 2 if dtype == "bool" else np.frombuffer(rng.bytes(960), dtype)
    )
    x = np.resize(values, (3, 4, 5)).astype(dtype)
    out = numba_kernel(kernels.copy, Spec(x.shape, dtype))(x)
    assert out.dtype == dtype
    assert np.asarray(out).tobytes() == x.tobytes()


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_precision_is_refused_with_the_cure(dtype):
    with pytest.raises(KernelCompileError, match=f"copy: .*no {dtype} arrays.*Convert it to float32"):
        numba_kernel(kernels.copy, Spec((2,), jnp.dtype(dtype)))(jnp.zeros(2, dtype))


@pytest.mark.parametrize("dtype", ["int4", "float8_e4m3fn"])
def test_other_dtypes_are_refused_with_those_that_work(dtype):
    with pytest.raises(KernelCompileError, match=r"Supported are bool, int8.*complex128"):
        numba_kernel(kernels.copy, Spec((2,), jnp.dtype(dtype)))(jnp.zeros(2, dtype))


@pytest.mark.parametrize("dtype", ["int64", "float64", "complex128"])
def test_64_bit_outputs_need_x64(dtype):
    with (
        pytest.raises(SignatureError, match=r"output 0 is declared .*64.*jax_enable_x64")
        if dtype != "complex128"
        else (pytest.raises(SignatureError, match=r"complex128.*complex64"))
    ):
        numba_kernel(kernels.copy, Spec((2,), dtype))(np.zeros(2, dtype))


def test_the_same_wrapper_serves_x64_on_and_off():
    wrapped = numba_kernel(kernels.double, Spec((3,), np.float32))
    x = np.arange(3, dtype=np.float64)
    assert wrapped(x.astype(np.float32)).dtype == np.float32
    with jax.enable_x64(True):
        assert wrapped(x).dtype == np.float32
        assert numba_kernel(kernels.double, Spec((3,), np.float64))(x).dtype == np.float64
    np.testing.assert_array_equal(wrapped(x), [0, 2, 4])


def test_scalars_are_arrays_of_rank_zero():
    matrix, total = numba_kernel(kernels.outer, [Spec((3, 3), np.float32), Spec((), np.float32)])(jnp.arange(3.0), 1.0)
    expected = np.outer(np.arange(3), np.arange(3)) + 1
    np.testing.assert_array_equal(matrix, expected)
    assert total.shape == ()
    assert float(total) == expected.sum()


@pytest.mark.parametrize("shape", [(0,), (0, 3), (3, 0), (2, 0, 2)])
def test_empty_arrays(shape):
    assert numba_kernel(kernels.copy, Spec(shape, np.float32))(jnp.zeros(shape, jnp.float32)).shape == shape


def test_a_kernel_without_inputs():
    np.testing.assert_array_equal(numba_kernel(kernels.fill, Spec((4,), np.int32))(), [0, 1, 2, 3])


def test_results_have_the_container_of_outs():
    @numba.njit
    def split(x, positive, negative):
        for i in range(x.size):
            positive[i], negative[i] = max(x[i], 0), min(x[i], 0)

    x, spec = jnp.array([-1.0, 2.0]), Spec((2,), np.float32)
    assert isinstance(numba_kernel(kernels.double, spec)(x), jax.Array)
    for outs in ([spec, spec], (spec, spec), {"p": spec, "n": spec}, [spec, (spec,)], {"p": {"q": spec}, "n": [spec]}):
        result = numba_kernel(split, outs)(x)
        assert jax.tree.structure(result) == jax.tree.structure(outs)
        first, second = jax.tree.leaves(result)
        np.testing.assert_array_equal(first, [0, 2])
        np.testing.assert_array_equal(second, [-1, 0])


def test_a_single_output_in_a_list_comes_back_in_a_list():
    (result,) = numba_kernel(kernels.double, [Spec((2,), np.float32)])(jnp.ones(2))
    np.testing.assert_array_equal(result, [2, 2])


def test_anything_with_shape_and_dtype_is_a_spec():
    x = jnp.arange(3.0)
    np.testing.assert_array_equal(numba_kernel(kernels.double, x)(x), [0, 2, 4])


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


def test_parallel_kernels():
    x = jnp.arange(100_000.0)
    np.testing.assert_array_equal(numba_kernel(kernels.double_parallel, x)(x), 2 * np.arange(100_000.0))


def test_explicit_signatures_bind_the_dtypes():
    @numba.njit(["void(float32[:], float32[:])", "void(int32[::1], int32[::1])"])
    def double(x, out):
        for i in range(x.size):
            out[i] = 2 * x[i]

    for dtype in (np.float32, np.int32):
        np.testing.assert_array_equal(numba_kernel(double, Spec((2,), dtype))(np.ones(2, dtype)), [2, 2])
    with pytest.raises(KernelCompileError, match=r"declared for \(array\(float32, 1d, A\).*called with \(array\(int8"):
        numba_kernel(double, Spec((2,), np.int8))(np.ones(2, np.int8))


def test_explicit_signatures_do_not_let_a_kernel_write_to_its_input():
    @numba.njit("void(float32[:], float32[:])")
    def writes(x, out):
        x[0] = 1

    x = jnp.zeros(2)
    with pytest.raises(KernelCompileError, match="input_output_aliases"):
        numba_kernel(writes, x)(x)
    np.testing.assert_array_equal(x, [0, 0])


def test_closures_are_told_apart_by_what_they_close_over():
    def scaled(factor):
        @numba.njit
        def scale(x, out):
            for i in range(x.size):
                out[i] = factor * x[i]

        return numba_kernel(scale, Spec((2,), np.float32))

    x = jnp.ones(2)
    assert [float(scaled(factor)(x)[0]) for factor in (2.0, 3.0, 2.0)] == [2.0, 3.0, 2.0]


def test_imports_in_the_body_work():
    base = 2.0

    @numba.njit(parallel=True)
    def power(x, out):
        import math
        from math import log as ln

        for i in numba.prange(x.size):
            out[i] = math.exp(x[i] * ln(base))

    np.testing.assert_allclose(numba_kernel(power, Spec((3,), np.float32))(jnp.arange(3.0)), [1, 2, 4], rtol=1e-6)


def test_defaults_and_variadic_parameters_work():
    @numba.njit
    def scaled(x, out, factor=3.0):
        for i in range(x.size):
            out[i] = factor * x[i]

    @numba.njit
    def count(*arrays):
        arrays[-1][0] = len(arrays)

    assert float(numba_kernel(scaled, Spec((1,), np.float32))(jnp.ones(1))[0]) == 3
    assert float(numba_kernel(count, Spec((1,), np.float32))(jnp.ones(1), jnp.ones(2))[0]) == 3


def test_compiler_options_of_the_kernel_are_kept():
    @numba.njit(boundscheck=True)
    def beyond(x, out):
        out[x.size] = 1

    with pytest.raises(jax.errors.JaxRuntimeError, match="beyond raised IndexError"):
        numba_kernel(beyond, Spec((2,), np.float32))(jnp.ones(2)).block_until_ready()


def test_python_in_an_object_mode_block_runs():
    seen = []

    @numba.njit
    def prints(x, out):
        with numba.objmode():
            seen.append(x.copy())
        out[0] = x[0]

    numba_kernel(prints, Spec((1,), np.float32))(jnp.full(1, 7.0)).block_until_ready()
    assert seen[0].tolist() == [7.0]


def test_a_recursive_helper_works():
    @numba.njit
    def factorial(n):
        return 1 if n <= 1 else n * factorial(n - 1)

    @numba.njit
    def kernel(x, out):
        for i in range(x.size):
            out[i] = factorial(x[i])

    result = numba_kernel(kernel, Spec((4,), np.int32))(jnp.array([1, 3, 5, 7], jnp.int32))
    assert result.tolist() == [math.factorial(n) for n in (1, 3, 5, 7)]


def test_importing_the_bridge_pulls_in_neither_pytest_nor_pandas():
    program = "import sys, bridge; print(*{'pytest', 'pandas', 'rich', 'warp', 'suites', 'reports'} & {*sys.modules})"
    assert processes.output("-c", program) == ""


def test_all_names_what_exists():
    import bridge

    assert sorted(bridge.__all__) == bridge.__all__
    assert all(hasattr(bridge, name) for name in bridge.__all__)


def test_defaults_of_a_kernel_of_any_name():
    @numba.njit
    def kernel(x, out, factor=2):
        for i in range(out.size):
            out[i] = factor * x[i]

    x = jnp.arange(3.0)
    np.testing.assert_array_equal(numba_kernel(kernel, Spec((3,), np.float32))(x), 2 * x)
    unnamed = numba.njit(lambda x, *outs: outs[0].fill(x[1]))
    np.testing.assert_array_equal(numba_kernel(unnamed, Spec((3,), np.float32))(x), np.ones(3))
