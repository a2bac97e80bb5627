"""The exponential function is as exact as its derivation says, and LLVM vectorises it; lanes hold what they should."""

import numba
import numpy as np
import pytest

from suites.backends.numba_cpu import block_exp, exponential, largest_element, short_dots

DTYPES = ("float32", "float64")


@numba.njit
def exponentials(x, out):
    for i in range(x.size):
        out[i] = exponential(x[i])


@numba.njit
def largest_elements(x, out):
    out[0] = largest_element(x)


def exp(x):
    out = np.empty_like(x)
    exponentials(x, out)
    return out


def ulps(x):
    """The error of ``exponential`` in units in the last place of the true value, by 64 bits of significand or more."""
    if np.finfo(np.longdouble).nmant <= np.finfo(x.dtype).nmant:
        pytest.skip(f"NumPy has no float more exact than {x.dtype} here")
    truth = np.exp(x.astype(np.longdouble))
    unit = np.spacing(truth.astype(x.dtype)).astype(np.longdouble)
    return np.abs(exp(x) - truth) / unit


@pytest.mark.parametrize("dtype", DTYPES)
class TestExponential:
    def test_it_is_off_by_at_most_one_and_a_half_units(self, dtype):
        info, random = np.finfo(dtype), np.random.default_rng(0)
        everywhere = random.uniform(np.log(info.smallest_normal), np.log(info.max), 200_000)
        small = random.normal(size=100_000)
        halves = (np.arange(-100, 100) + 0.5) * np.log(2)  # where the reduced argument is largest
        near = halves[:, None] * (1 + info.eps * np.arange(-8, 9))
        x = np.concatenate([everywhere, small, small * 1e-6, near.ravel()]).astype(dtype)
        assert ulps(x[(x > np.log(info.smallest_normal)) & (x < np.log(info.max))]).max() <= 1.5

    def test_limits_and_special_values(self, dtype):
        info = np.finfo(dtype)
        high, low = np.log(info.max), np.log(info.smallest_subnormal)
        x = np.array([0, -0.0, np.nan, np.inf, -np.inf, info.max, -info.max, high * 1.001, low * 1.01], dtype)
        expected = np.array([1, 1, np.nan, np.inf, 0, np.inf, 0, np.inf, 0], dtype)
        np.testing.assert_array_equal(exp(x), expected)
        assert np.isfinite(exp(np.nextafter(np.array([high], dtype), 0, dtype=dtype)))


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "int64", "uint8"])
class TestLanes:
    SIZES = (1, 2, 7, 8, 9, 15, 16, 17, 31, 33, 63, 64, 65, 128, 150)

    def test_largest_element_at_each_place(self, dtype):
        for size in self.SIZES:
            numbers = np.random.default_rng(size).permutation(size).astype(dtype)
            for place in range(size):
                x, out = numbers.copy(), np.empty(1, dtype)
                x[place] = 200
                largest_elements(x, out)
                assert out[0] == 200

    def test_short_dots(self, dtype):
        for size in self.SIZES:
            random = np.random.default_rng(size)
            # Products and sums are whole numbers, and so exact in any order.
            A, x = random.integers(0, 4, (20, size)).astype(dtype), random.integers(0, 4, size).astype(dtype)
            for first, last in ((0, 20), (2, 13), (3, 3), (1, 17), (19, 20)):
                self.check_short_dots(A, x, first, last)

    def check_short_dots(self, A, x, first, last):
        out = np.full(len(A), 77, A.dtype)
        short_dots(A, x, first, last, out)
        np.testing.assert_array_equal(out[first:last], (A @ x)[first:last])
        assert (out[:first] == 77).all()
        assert (out[last:] == 77).all()

    def test_arrays_may_begin_at_any_element(self, dtype):
        for size in (1, 15, 64, 150):
            buffer = np.random.default_rng(size).integers(0, 4, 64 + 9 * size).astype(dtype)
            for start in range(64 // np.dtype(dtype).itemsize):
                x, out = buffer[start : start + size], np.empty(1, dtype)
                largest_elements(x, out)
                assert out[0] == x.max()
                A, products = buffer[start : start + 9 * size].reshape(9, size), np.zeros(9, dtype)
                short_dots(A, x, 0, 9, products)
                np.testing.assert_array_equal(products, (A @ x).astype(dtype))


@pytest.mark.parametrize("dtype", DTYPES)
class TestExponentialsOfABlock:
    def test_they_and_their_sum_are_as_exact_as_the_exponential(self, dtype):
        for size in TestLanes.SIZES:
            x, out = np.random.default_rng(size).normal(size=size).astype(dtype), np.full(size + 64, 7, dtype)
            truth = np.exp(x.astype(np.longdouble) - x.max().astype(np.longdouble))
            total = block_exp(x, x.max(), out[:size])
            u = np.finfo(dtype).eps
            # The exponential is off by 1.5 units, and the distance by a rounding that its exponential multiplies.
            np.testing.assert_allclose(out[:size], truth, rtol=(2 + x.max() - x.min()) * u)
            np.testing.assert_allclose(total, truth.sum(), rtol=(2 + x.max() - x.min() + size) * u)
            assert (out[size:] == 7).all()


@pytest.mark.parametrize("dtype", DTYPES)
def test_nan_at_each_place_is_the_largest_element(dtype):
    for size in TestLanes.SIZES:
        for place in range(size):
            x, out = np.arange(size).astype(dtype), np.empty(1, dtype)
            x[place:] = [np.nan, *[np.inf] * (size - place - 1)]
            largest_elements(x, out)
            assert np.isnan(out[0])
