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


SIZES = (1, 8, 9, 31, 64, 65, 150)


@pytest.mark.parametrize("dtype", ["float32", "int64", "uint8"])
def test_lanes_find_the_largest_element_at_each_place_and_dots_of_each_row(dtype):
    itemsize = np.dtype(dtype).itemsize
    for size in SIZES:
        random = np.random.default_rng(size)
        for place in range(size):
            x, out = random.permutation(size).astype(dtype), np.empty(1, dtype)
            x[place] = 200
            largest_elements(x, out)
            assert out[0] == 200
        for start in (0, 1, 64 // itemsize - 1):  # arrays may begin at any element
            # Products and sums are whole numbers, and so exact in any order.
            A = random.integers(0, 4, start + 20 * size).astype(dtype)[start:].reshape(20, size)
            x = random.integers(0, 4, size).astype(dtype)
            for first, last in ((0, 20), (2, 13), (3, 3), (19, 20)):
                out = np.full(20, 77, dtype)
                short_dots(A, x, first, last, out)
                expected = np.where((np.arange(20) >= first) & (np.arange(20) < last), A @ x, 77)
                np.testing.assert_array_equal(out, expected.astype(dtype))


@pytest.mark.parametrize("dtype", DTYPES)
def test_exponentials_of_a_block_and_their_sum_are_as_exact_as_the_exponential(dtype):
    for size in SIZES:
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
    for size in SIZES:
        for place in range(size):
            x, out = np.arange(size).astype(dtype), np.empty(1, dtype)
            x[place:] = [np.nan, *[np.inf] * (size - place - 1)]
            largest_elements(x, out)
            assert np.isnan(out[0])
