"""numba_kernel with float16 and bfloat16: computed in float32, rounded once, as JAX does it."""

import jax
import jax.numpy as jnp
import numba
import numpy as np
import pytest

from bridge import KernelCompileError, numba_kernel
from bridge.compat import numba as compat
from bridge.languages.numba import half_precision
from suites.unit.bridge import kernels

Spec = jax.ShapeDtypeStruct
DTYPES = [np.dtype(np.float16), np.dtype(jnp.bfloat16)]
each_dtype = pytest.mark.parametrize("dtype", DTYPES, ids=str)


def kernel_of(*lines, **options):
    """A kernel of x, y and out."""
    namespace = {}
    exec("import numba, numpy as np\ndef kernel(x, y, out):\n    " + "\n    ".join(lines), namespace)
    return numba.njit(**options)(namespace["kernel"])


def elementwise(expression, **options):
    return kernel_of("for i in range(x.size):", f"    out[i] = {expression}", error_model="numpy", **options)


def every(dtype):
    """All numbers of a dtype: subnormal ones, infinities, NaN and both zeros among them."""
    return np.arange(2**16, dtype=np.uint16).view(dtype)


def pairs(dtype):
    x, y = (np.random.default_rng(seed).permutation(np.repeat(every(dtype), 4)) for seed in (0, 1))
    return jnp.asarray(x), jnp.asarray(y)


def normals(dtype, size=64):
    x, y = np.random.default_rng(0).standard_normal((2, size)).astype(dtype)
    return jnp.asarray(x), jnp.asarray(y)


def assert_same_bits(got, expected):
    """NaN has many bits, which differ from processor to processor."""
    got, expected = np.asarray(got), np.asarray(expected)
    assert got.dtype == expected.dtype
    nan = np.isnan(expected.astype(np.float32))
    np.testing.assert_array_equal(np.isnan(got.astype(np.float32)), nan)
    unsigned = f"u{got.itemsize}"
    np.testing.assert_array_equal(got.view(unsigned)[~nan], expected.view(unsigned)[~nan])


def near_ties(dtype):
    """Numbers between two neighbours of a dtype, a little less, and a little more, as float64."""
    with np.errstate(invalid="ignore"):
        finite = np.unique(every(dtype).astype(np.float64)[np.isfinite(every(dtype).astype(np.float64))])
    middles = (finite[1:] + finite[:-1]) / 2
    return np.concatenate([middles, np.nextafter(middles, np.inf), np.nextafter(middles, -np.inf)])


class TestEachConversionIsExact:
    @each_dtype
    def test_to_float32(self, dtype):
        got = numba_kernel(numba.njit(kernels.copy.py_func), Spec((2**16,), np.float32))(every(dtype))
        assert_same_bits(got, every(dtype).astype(np.float32))

    @each_dtype
    def test_from_float32(self, dtype):
        bits = np.random.default_rng(0).integers(0, 2**32, 2**20, dtype=np.uint32)
        with np.errstate(over="ignore", invalid="ignore"):
            x = np.concatenate([bits.view(np.float32), near_ties(dtype).astype(np.float32)])
            expected = x.astype(dtype)
        assert_same_bits(numba_kernel(numba.njit(kernels.copy.py_func), Spec(x.shape, dtype))(x), expected)

    def test_from_float64_rounds_once(self):
        with jax.enable_x64(True), np.errstate(over="ignore"):
            x = near_ties(np.float16)
            got = numba_kernel(numba.njit(kernels.copy.py_func), Spec(x.shape, np.float16))(x)
            assert_same_bits(got, x.astype(np.float16))
            assert (x.astype(np.float32).astype(np.float16) != x.astype(np.float16)).any()  # rounding twice would show

    def test_a_float64_just_above_a_tie_becomes_the_larger_bfloat16(self):
        with jax.enable_x64(True):
            x = np.nextafter([1 + 2.0**-8], 2)
            assert numba_kernel(numba.njit(kernels.copy.py_func), Spec((1,), jnp.bfloat16))(x) == 1 + 2.0**-7


@each_dtype
@pytest.mark.parametrize("operation", ["x + y", "x / y", "np.sqrt(x)"])
def test_elementary_operations_have_the_bits_of_jnp(dtype, operation):
    x, y = pairs(dtype)
    got = numba_kernel(elementwise(operation.replace("x", "x[i]").replace("y", "y[i]")), Spec(x.shape, dtype))(x, y)
    expected = jax.jit(lambda x, y: eval(operation, {"x": x, "y": y, "np": jnp}))(x, y)
    assert_same_bits(got, expected)


KERNELS = {
    "a chain is rounded at its end": ["for i in range(x.size):", "    out[i] = (x[i] * y[i] - x[i]) / 3 + y[i]"],
    "arrays": ["out[:] = np.sqrt(np.abs(x)) * y + 1"],
    "float, int and a power": ["for i in range(x.size):", "    out[i] = float(x[i]) + int(y[i]) + x[i] ** 2"],
    "a sum is a float32": ["total = x.dtype.type(0)", "for each in x:", "    total += each", "out[:] = total / x.size"],
    "a tuple in a parallel loop": ["t = x[0], y[0]", "for i in numba.prange(x.size):", "    out[i] = x[i] + t[1]"],
    "a reduction": ["total = x[0] * 0", "for i in numba.prange(x.size):", "    total += x[i]", "out[:] = round(total)"],
    "reductions of arrays": ["out[:] = np.exp(x - x.max()) * y.min()"],
}  # fmt: skip


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize(("dtype", "parallel"), [(DTYPES[0], False), (DTYPES[1], True)], ids=["float16", "bfloat16"])
def test_a_kernel_gives_what_the_same_lines_give_in_float32(dtype, parallel, name):
    kernel, (x, y) = kernel_of(*KERNELS[name], parallel=parallel), normals(dtype)
    wide = [np.asarray(each, np.float32) for each in (x, y, x)]
    numba.njit(kernel.py_func)(*wide)
    got = numba_kernel(kernel, Spec(x.shape, dtype))(x, y)
    if "exp" in repr(KERNELS[name]):  # of one argument, or of several at once
        np.testing.assert_allclose(np.asarray(got, np.float32), wide[2], rtol=2 * float(jnp.finfo(dtype).eps))
    else:
        assert_same_bits(got, wide[2].astype(dtype))


@pytest.mark.parametrize(
    ("constructor", "dtype"), [("np.float16", "float16"), ("x.dtype.type", "float16"), ("x.dtype.type", "bfloat16")]
)
def test_a_constructor_rounds_a_number_as_numpy_does(constructor, dtype):
    x, y = normals(dtype)
    got = numba_kernel(elementwise(f"{constructor}(x[i] * y[i]) + x[i]"), Spec(x.shape, dtype))(x, y)
    assert_same_bits(got, x * y + x)
    assert (np.asarray(got) != np.asarray((x.astype(np.float32) * y + x).astype(dtype))).any()


def test_a_kernel_whose_arrays_are_wider_may_compute_a_half_number():
    @numba.njit
    def rounded(x, out):
        out[0] = np.float16(x[0])

    assert numba_kernel(rounded, Spec((1,), np.float32))(jnp.full(1, 1 / 3))[0] == np.float16(1 / 3)


def test_what_is_changed_in_numba_for_a_kernel_ends_with_its_compilation():
    x, y = normals(np.dtype(jnp.bfloat16))
    before = [getattr(owner, name) for owner, name, _ in compat.patches_for_halves({})]
    numba_kernel(kernel_of("out[0] = np.sqrt(x[0])"), Spec(x.shape, x.dtype))(x, y)
    assert [getattr(owner, name) for owner, name, _ in compat.patches_for_halves({})] == before


def test_a_processor_that_does_not_convert_float16_is_refused(monkeypatch):
    monkeypatch.setattr(half_precision, "converts_float16", lambda: False)
    x = jnp.ones(4, jnp.float16)
    with pytest.raises(KernelCompileError, match=r"does not convert float16\. Convert the arrays to float32"):
        numba_kernel(kernel_of("out[0] = x[0]"), Spec(x.shape, x.dtype))(x, x)


def test_a_dtype_of_jax_in_a_kernel_is_refused_with_the_cure():
    x = jnp.ones(4, jnp.bfloat16)

    @numba.njit
    def kernel(x, out):
        out[0] = jnp.bfloat16(x[0])

    with pytest.raises(KernelCompileError, match=r"Write x\.dtype\.type\(value\)"):
        numba_kernel(kernel, Spec((4,), jnp.bfloat16))(x)
