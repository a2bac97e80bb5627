"""Derived bounds against right kernels, and against wrong ones."""

import itertools
import re
import time

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.extend.core import Primitive
from jax.interpreters import mlir

from reports import Status
from suites.numerics.derived import derived_truth, explain_truth
from suites.numerics.precision import precision
from suites.numerics.verdict import judge


def _computed(function, inputs):
    with precision(*(array.dtype for array in inputs)):
        return [np.asarray(leaf) for leaf in jax.tree.leaves(function(*inputs))]


def _wrong(truth, results):
    verdict = judge(results, truth)
    return verdict.status is not Status.PASSED


# Wrong kernels.

RANDOM = np.random.default_rng(0)
X = RANDOM.standard_normal(1000).astype(np.float32)


# What is derived, and what is not.


@pytest.mark.parametrize("dtype", ["float64", "bfloat16"])  # the widest and the narrowest
@pytest.mark.parametrize(
    "reference",
    [
        pytest.param(lambda x: jax.nn.gelu(x, approximate=False), id="gelu by erf"),
        pytest.param(lambda x: (x - x.mean()) * jax.lax.rsqrt(x.var() + 1e-5), id="layer norm"),
        pytest.param(lambda x: jnp.sort(jnp.exp(x)), id="sort"),
        pytest.param(lambda x: jax.lax.top_k(x, 3), id="top k"),
        pytest.param(lambda x: jnp.arctan2(x, x[::-1]) + jnp.sin(30 * x) + jnp.tanh(x), id="angles"),
        pytest.param(lambda x: jnp.abs(x) ** 2.5 + x**-2, id="powers"),
        pytest.param(lambda x: jnp.sum(jnp.exp(x) > 1.5), id="count"),
        pytest.param(lambda x: jax.lax.scan(lambda c, y: (c * 0.9 + y, c), x[0], x), id="scan"),
        pytest.param(lambda x: jax.lax.fori_loop(0, 5, lambda i, c: c * x + 1, x), id="fori loop"),
        pytest.param(lambda x: jax.lax.associative_scan(jnp.multiply, 1 + x / 100), id="associative scan"),
        pytest.param(lambda x: jax.lax.pad(x, x[0], [(-2, 3, 2)]), id="pad"),
        pytest.param(jax.grad(lambda x: jnp.sum(jnp.tanh(x) ** 2)), id="gradient"),
        pytest.param(lambda x: x.at[jnp.arange(3)].set(2 * x[5:8]), id="set"),
        pytest.param(lambda x: {"a": jnp.roll(x, 3) + jnp.pad(x, (1, 2))[1:-2], "b": [jnp.stack([x, x])]}, id="moves"),
    ],
)
def test_bound_is_derived_and_xla_keeps_to_it(reference, dtype):
    inputs = (np.random.default_rng(3).standard_normal(60).astype(dtype),)
    assert explain_truth(reference, inputs) == "derived bound"
    truth = derived_truth(reference, inputs)
    results = _computed(jax.jit(reference), inputs)
    assert [expected.dtype for expected in truth.outputs] == [result.dtype for result in results]
    verdict = judge(results, truth)
    assert verdict.status is Status.PASSED, verdict.reason


def test_an_operation_of_newer_jax_has_a_rule():
    """JAX 0.11 writes the derivative of tanh with it."""
    square = Primitive("one_minus_square")
    square.def_abstract_eval(lambda x: x)
    mlir.register_lowering(square, mlir.lower_fun(lambda x: (1 + x) * (1 - x), multiple_results=False))
    x = np.linspace(-1.5, 1.5, 100, dtype=np.float32)
    truth = derived_truth(square.bind, (x,))
    assert explain_truth(square.bind, (x,)) == "derived bound"
    right = 1 - x.astype(np.float64) ** 2
    assert judge([right.astype(np.float32)], truth).status is Status.PASSED
    assert judge([np.float32(1) - x * x], truth).status is Status.PASSED
    assert _wrong(truth, [(right * (1 + 1e-5)).astype(np.float32)])


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_products_of_matrices_and_convolutions_are_derived(dtype):
    a, b = (RANDOM.standard_normal((3, 9, 9)).astype(dtype) for _ in range(2))
    for reference in (
        lambda a, b: jnp.einsum("bij,bkj->kbi", a, b, precision="highest"),
        lambda a, b: jnp.matmul(jnp.exp(a), b, precision="highest"),
        lambda a, b: jax.lax.conv(jnp.tanh(a)[None], b[None], (1, 1), "SAME", precision=jax.lax.Precision.HIGHEST),
    ):
        assert explain_truth(reference, (a, b)) == "derived bound"
        verdict = judge(_computed(jax.jit(reference), (a, b)), derived_truth(reference, (a, b)))
        assert verdict.status is Status.PASSED, verdict.reason


def test_either_answer_is_right_at_a_threshold_that_is_within_rounding():
    x = np.array([0.0, 1.0], np.float32)

    def reference(x):
        above = jnp.exp(x) - 1 > 0
        return above, above.astype(jnp.int32), jnp.where(above, x + 5, x)

    truth = derived_truth(reference, (x,))
    for first, status in [(False, Status.PASSED), (True, Status.PASSED)]:
        flags = np.array([first, True])
        results = [flags, flags.astype(np.int32), np.where(flags, x + 5, x)]
        assert judge(results, truth).status is status
    assert _wrong(truth, [np.array([True, False]), np.array([1, 0], np.int32), np.array([5, 1], np.float32)])
    assert _wrong(truth, [np.array([True, True]), np.array([2, 1], np.int32), np.array([5, 6], np.float32)])


def test_integers_wrap_around_and_are_compared_bit_for_bit():
    x = np.array([2**31 - 1, 5], np.int32)
    (expected,) = derived_truth(lambda x: x * 3 + (x >> 1), (x,)).outputs
    assert expected.margin is None
    assert np.array_equal(expected.value, x * np.int32(3) + (x >> 1))


def test_what_is_not_finite_stays_in_its_place():
    x = np.array([np.nan, np.inf, -np.inf, 0, 1], np.float32)
    (expected,) = derived_truth(lambda x: 1 / x + jnp.exp(x), (x,)).outputs
    assert np.array_equal(np.isnan(expected.value), [True, False, False, False, False])
    assert np.array_equal(np.isinf(expected.value), [False, True, False, True, False])
    assert (expected.margin[:4] < 1e-37).all()


def _while(x):
    return jax.lax.while_loop(lambda c: c.sum() < 1e3, lambda c: c * 2, jnp.abs(x))


def _untraceable(x):
    return x * 2 if float(x[0]) > -100 else x


UNDERIVABLE = {
    "while": (_while, "no bound is derived through `while`"),
    "long while": (lambda x: jax.lax.fori_loop(0, 5000 + 0 * x.size, lambda i, c: 0.9 * c, x), "of 5000 steps"),
    "product": (lambda x: jnp.prod(1 + x / 100, keepdims=True), "no bound is derived through `reduce_prod`"),
    "complex": (lambda x: jnp.abs(jnp.fft.fft(x)), "no bound is derived for complex numbers"),
    "index": (lambda x: x[jnp.round(jnp.exp(0 * x[0]) + 0.5).astype(int)], "depends on a rounded number"),
    "branch": (lambda x: jax.lax.cond(jnp.exp(0 * x[0]) > 1, jnp.sin, jnp.cos, x), "a branch of `cond`"),
    "untraceable": (_untraceable, "cannot be traced"),
}


@pytest.mark.parametrize("name", UNDERIVABLE)
def test_tolerance_and_reason_are_given_where_no_bound_is_derived(name):
    reference, reason = UNDERIVABLE[name]
    inputs = (X[:64],)
    explained = explain_truth(reference, inputs)
    assert re.match(r"tolerance 6\.1e-5 of the largest result, because ", explained), explained
    assert reason in explained
    truth = derived_truth(reference, inputs)
    results = _computed(reference, inputs)
    assert not _wrong(truth, results)
    (expected,) = truth.outputs
    largest = np.abs(expected.value).max()
    assert expected.margin == pytest.approx(1024 * 2.0**-24 * (np.abs(expected.value) + largest))
    results[0] = results[0] + np.float32(0.01) * largest
    assert _wrong(truth, results)


def _biquad(x):
    def step(carry, v):
        x1, x2, y1, y2 = carry
        y = 0.0675 * v + 0.135 * x1 + 0.0675 * x2 + 1.143 * y1 - 0.4128 * y2
        return (v, x1, y, y1), y

    return jax.lax.scan(step, (jnp.zeros((), x.dtype),) * 4, x)[1]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_truth_of_a_long_loop_takes_no_time(dtype):
    """Fifty patterns are drawn of a thousand elements each: a loop that Python follows takes ten seconds for one."""
    x = np.random.default_rng(0).standard_normal(4000).astype(dtype)
    start = time.process_time()
    truth = derived_truth(_biquad, (x,))
    assert time.process_time() - start < 2.0
    results = _computed(jax.jit(_biquad), (x,))
    assert not _wrong(truth, results)
    begun_again = _computed(jax.jit(_biquad), (x[3000:],))[0]
    assert _wrong(truth, [np.concatenate([results[0][:3000], begun_again])])


COMPARED = {
    "compared": (lambda x: (x >= 0).astype(jnp.int32), -5e-309, [0, 1]),
    "a product": (lambda x: (x * x > 0).astype(jnp.int32), 1e-160, [1, 1]),
}


@pytest.mark.parametrize("name", COMPARED)
def test_truth_without_a_bound_flushes_no_subnormal_number(name):
    """XLA's threads flush them, so that its comparisons are not those of a GPU."""
    reference, value, right = COMPARED[name]
    (expected,) = derived_truth(reference, (np.array([value, 1.0]),), tolerance=1e-9).outputs
    assert expected.value.tolist() == right


def test_an_element_of_which_nothing_is_known_is_named_and_the_others_are_judged():
    def reference(x):
        return 1 / (jnp.exp(x) - 1)

    x = np.array([1e-9, 1.0], np.float32)
    assert explain_truth(reference, (x,)) == "derived bound, but none for 1 of 2 elements"
    truth = derived_truth(reference, (x,))
    verdict = judge(_computed(reference, (np.array([1e-3, 1.0], np.float32),)), truth)
    assert (verdict.status, verdict.judged) == (Status.UNCHECKED, 1)
    assert verdict.reason.startswith("output 0[0]: no error bound is known")
    assert "tolerance=" in verdict.reason
    assert judge(_computed(reference, (np.array([1e-3, 1.1], np.float32),)), truth).status is Status.WRONG_VALUE


def test_a_divisor_that_may_be_zero_has_no_place_for_infinity():
    x = np.array([1.0, 2.0], np.float32)
    truth = derived_truth(lambda x: 1 / (jnp.exp(x) - jnp.exp(x[:1])), (x,))
    right = np.asarray(1 / (np.exp(x[1]) - np.exp(x[0])))
    for first in (np.inf, -np.inf, 1e7, np.nan):
        verdict = judge([np.array([first, right], np.float32)], truth)
        assert (verdict.status, verdict.judged) == (Status.UNCHECKED, 1)
    assert judge([np.array([np.inf, 2 * right], np.float32)], truth).status is Status.WRONG_VALUE


def test_complex_results_have_a_tolerance_that_refuses_wrong_parts():
    random = np.random.default_rng(8)
    z, w = ((random.standard_normal(300) + 1j * random.standard_normal(300)).astype(np.complex64) for _ in range(2))
    reference = lambda z, w: (z * w + 2 * z, jnp.abs(z - w), jnp.sum(z * w))  # noqa: E731
    assert "because no bound is derived for complex64" in explain_truth(reference, (z, w))
    truth = derived_truth(reference, (z, w))
    results = _computed(jax.jit(reference), (z, w))
    assert judge(results, truth).status is Status.PASSED
    for wrong in (results[0].conj(), results[0].real.astype(z.dtype), results[0] * np.complex64(1.001)):
        assert judge([wrong, *results[1:]], truth).status is Status.WRONG_VALUE


# Other orders.


def _running_means(x):
    mean, means = x.dtype.type(0), []
    for count, value in enumerate(x, 1):
        mean = mean + (value - mean) / x.dtype.type(count)
        means.append(mean)
    return np.array(means)


def _welford(x):
    mean = squares = x.dtype.type(0)
    for count, value in enumerate(x, 1):
        away = value - mean
        mean = mean + away / x.dtype.type(count)
        squares = squares + away * (value - mean)
    return squares / x.dtype.type(x.size)


RUNNING = {
    "variance": (jnp.var, _welford),
    "mean by a product": (lambda x: jnp.sum(x) * (1 / x.size), lambda x: _running_means(x)[-1]),
    "means": (lambda x: jnp.cumsum(x) / jnp.arange(1, x.size + 1, dtype=x.dtype), _running_means),
}


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", RUNNING)
def test_a_running_mean_of_whole_numbers_is_right_and_another_last_term_is_not(name, dtype):
    reference, kernel = RUNNING[name]
    for seed, size in itertools.product(range(20), (4, 8, 16, 64, 1024)):
        x = (np.random.default_rng(seed).integers(0, 41, size) / 4).astype(dtype)
        truth = derived_truth(reference, (x,))
        assert judge([np.asarray(kernel(x))], truth).status is Status.PASSED
        x[-1] += 100
        assert judge([np.asarray(kernel(x))], truth).status.wrong


@pytest.mark.parametrize("power", [2, 3, 5, 7])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_power_whose_truth_happens_to_fit_is_rounded_on_the_way(power, dtype):
    x = np.random.default_rng(power).standard_normal(2**17).astype(dtype)
    result = np.ones_like(x)
    for _ in range(power):
        result *= x
    assert judge([result], derived_truth(lambda x: x**power, (x,))).status is Status.PASSED


def test_a_sum_in_another_order_is_right_beside_infinity_times_zero_in_another_sum():
    weights, x = np.ones(8, np.float32), np.full(8, -0.59662837, np.float32)
    weights[7], x[7] = np.inf, 0
    truth = derived_truth(lambda w, x: jax.ops.segment_sum(w * x, np.array([0] * 7 + [1]), 2), (weights, x))
    with np.errstate(invalid="ignore"):
        result = np.stack([np.cumsum(weights[:7] * x[:7])[-1], weights[7] * x[7]])
    assert judge([result], truth).status is Status.PASSED
    result[0] *= np.float32(1.02)
    assert judge([result], truth).status.wrong
