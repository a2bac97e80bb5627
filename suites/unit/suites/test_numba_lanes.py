"""The exponential function is as exact as its derivation says, and LLVM vectorises it; lanes hold what they should."""

import math
import re
from decimal import Decimal, localcontext

import numba
import numpy as np
import pytest

from suites.backends.numba_cpu import block_exp, exponential, index_of_largest, largest_element, multiply, short_dots
from suites.backends.numba_cpu_blocks import IN_FIRST_CACHE
from suites.backends.numba_cpu_lanes import LANES_BYTES, lane_count, load_first_lanes, roots, store_first_lanes
from suites.backends.numba_cpu_math import Reduction, interpolated

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

    def test_subnormal_results_are_rounded_once_more(self, dtype):
        info = np.finfo(dtype)
        x = np.linspace(np.log(info.smallest_subnormal), np.log(info.smallest_normal), 50_000).astype(dtype)
        assert 0 < exp(x).max() < 1.001 * info.smallest_normal
        assert ulps(x).max() <= 1.5

    def test_limits_and_special_values(self, dtype):
        info = np.finfo(dtype)
        high, low = np.log(info.max), np.log(info.smallest_subnormal)
        x = np.array([0, -0.0, np.nan, np.inf, -np.inf, info.max, -info.max, high * 1.001, low * 1.01], dtype)
        expected = np.array([1, 1, np.nan, np.inf, 0, np.inf, 0, np.inf, 0], dtype)
        np.testing.assert_array_equal(exp(x), expected)
        assert np.isfinite(exp(np.nextafter(np.array([high], dtype), 0, dtype=dtype)))

    def test_the_polynomial_is_as_close_as_the_theorem_says(self, dtype):
        degree = len(Reduction.of(dtype).coefficients) - 1
        with localcontext() as context:
            context.prec = 50
            half = Decimal(2).ln() / 2
            bound = (2 * half).exp() * half ** (degree + 1) / (2**degree * math.factorial(degree + 1))
            assert bound < Decimal(float(np.finfo(dtype).epsneg)) / 10  # a tenth of a rounding
            coefficients = interpolated(degree, half)
            for step in range(-500, 501):
                r, value = half * step / 500, Decimal(0)
                for coefficient in coefficients:
                    value = value * r + coefficient
                assert abs(value / r.exp() - 1) <= bound

    def test_llvm_vectorises_a_loop_of_it(self, dtype):
        x = np.ones(100, dtype)
        exp(x)
        code = exponentials.inspect_llvm((numba.typeof(x), numba.typeof(x)))
        kind = {"float32": "float", "float64": "double"}[dtype]
        assert re.search(rf"fmul contract <\d+ x {kind}>", code)
        assert not re.search(r"call.*@(exp|expf|llvm\.exp)\b", code)


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
                assert index_of_largest(x) == place

    def test_elements_beyond_the_end_do_not_count(self, dtype):
        for size in self.SIZES:
            x, out = np.full(size + 200, 100, dtype), np.empty(1, dtype)
            x[:size] = np.arange(size) % 10
            largest_elements(x[:size], out)
            assert out[0] == x[:size].max()
            assert index_of_largest(x[:size]) == x[:size].argmax()

    def test_short_dots(self, dtype):
        for size in self.SIZES:
            random = np.random.default_rng(size)
            # Products and sums are whole numbers, and so exact in any order.
            A, x = random.integers(0, 4, (20, size)).astype(dtype), random.integers(0, 4, size).astype(dtype)
            for first, last in ((0, 20), (2, 13), (3, 3), (1, 17), (19, 20)):
                self.check_short_dots(A, x, first, last)

    def test_short_dots_of_more_than_the_first_cache_holds(self, dtype):
        random = np.random.default_rng(0)
        A, x = random.integers(0, 2, (41, 1000)).astype(dtype), random.integers(0, 2, 1000).astype(dtype)
        assert A.nbytes > IN_FIRST_CACHE * LANES_BYTES
        self.check_short_dots(A, x, 0, 41)

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
                assert index_of_largest(x) == x.argmax()
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

    def test_infinity_and_nan(self, dtype):
        for size in TestLanes.SIZES:
            x, out = np.zeros(size, dtype), np.empty(size, dtype)
            x[-1] = -np.inf
            assert block_exp(x, alike(x, 0), out) == size - 1
            assert out[-1] == 0
            for center in (np.nan, -np.inf):  # of a row of nothing but -inf
                x[:] = -np.inf
                assert np.isnan(block_exp(x, alike(x, center), out))
                assert np.isnan(out).all()

    def test_multiply_ends_with_the_vector(self, dtype):
        for size in TestLanes.SIZES:
            x = np.arange(1, size + 65).astype(dtype)
            multiply(x[:size], alike(x, 2))
            np.testing.assert_array_equal(x[:size], 2 * np.arange(1, size + 1))
            np.testing.assert_array_equal(x[size:], np.arange(size + 1, size + 65))


@numba.njit
def square_roots(x, out):
    for start in range(0, x.size, lane_count(x)):
        store_first_lanes(out, start, x.size - start, roots(load_first_lanes(x, start, x.size - start, x[0])))


@pytest.mark.parametrize("dtype", DTYPES)
def test_roots_are_rounded_like_those_of_numpy(dtype):
    for size in TestLanes.SIZES:
        x, out = np.random.default_rng(size).uniform(size=size).astype(dtype), np.full(size + 64, 7, dtype)
        square_roots(x, out[:size])
        np.testing.assert_array_equal(out[:size], np.sqrt(x))
        assert (out[size:] == 7).all()


def alike(x, number):
    return x.dtype.type(number)


@pytest.mark.parametrize("dtype", DTYPES)
def test_nan_at_each_place_is_the_largest_element(dtype):
    for size in TestLanes.SIZES:
        for place in range(size):
            x, out = np.arange(size).astype(dtype), np.empty(1, dtype)
            x[place:] = [np.nan, *[np.inf] * (size - place - 1)]
            largest_elements(x, out)
            assert np.isnan(out[0])
            assert index_of_largest(x) == place
