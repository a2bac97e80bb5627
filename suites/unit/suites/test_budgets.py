"""Every error budget refuses faults that a wide bound would hide: a dropped term, rounded inputs, a narrower type.

The wrong results are those of a right kernel on spoiled inputs, rounded from truth: no kernel is compiled.
"""

import math
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from reports import Status
from suites.cells.case import SEED
from suites.declare.operator import Operator
from suites.numerics.derived import derived_truth, explain_truth
from suites.numerics.error_model import Expected, Truth, bounded, exact, gamma, sum_error
from suites.numerics.partial_sums import DEVIATIONS, MOST, few_values, partial_sums, partial_sums_at, running_sums
from suites.numerics.quanta import nothing_rounded, quantum
from suites.numerics.verdict import judge
from suites.ops import operators

SIZES = (2100, 100_003)

DERIVED = {
    "sum": lambda x: jnp.sum(x),
    "dot": lambda x, y: jnp.dot(x, y, precision="highest"),
    "mean": lambda x: jnp.mean(x),
    "norm": lambda x: jnp.sqrt(jnp.sum(x * x)),
    "running sum": lambda x: jnp.cumsum(x),
    "softmax": lambda x: jax.nn.softmax(x),
    "rows": lambda x, y: jnp.sum((x * y)[: x.size // 7 * 7].reshape(7, -1), axis=1),
    "product": lambda x, y: jnp.matmul(
        x[: math.isqrt(x.size) ** 2].reshape(math.isqrt(x.size), -1), y[: math.isqrt(x.size)], precision="highest"
    ),
    "polynomial": lambda x: 1 + x * (2 + x),
    "segments": lambda x: jax.ops.segment_sum(x, jnp.arange(x.size) % 10, 10),
}
"""Truths that are derived from a reference."""


class Derived:
    """As much of an operator as the tests need, with the truth that is derived from a reference."""

    dtypes = ("float32", "float64")

    def __init__(self, name):
        self.name, self.reference = f"derived {name}", DERIVED[name]
        self.count = self.reference.__code__.co_argcount

    def sample(self, dtype, size, seed):
        random = np.random.default_rng(seed)
        return tuple(random.standard_normal(size).astype(dtype) for _ in range(self.count))

    def truth(self, *inputs):
        return derived_truth(self.reference, inputs)


@dataclass(frozen=True)
class Case:
    """The inputs of an operator, the truth, and the results of a kernel that is right."""

    operator: Operator | Derived
    dtype: str
    inputs: tuple[np.ndarray, ...]
    truth: Truth
    right: list[np.ndarray]


def _cases():
    for operator in [*operators().values(), *map(Derived, DERIVED)]:
        for dtype in operator.dtypes:
            sizes = SIZES
            if operator.name == "nbody":
                sizes = (257,)  # all pairs of more bodies would take seconds
            elif isinstance(operator, Derived) and dtype == "float64":
                sizes = SIZES[:1]
            for size in sizes:
                yield pytest.param((operator, dtype, size), id=f"{operator.name}-{dtype}-{size}")


@pytest.fixture(scope="module", params=_cases())
def case(request):
    operator, dtype, size = request.param
    inputs = operator.sample(dtype, size, SEED)
    truth = operator.truth(*inputs)
    return Case(operator, dtype, inputs, truth, _rounded(truth))


def _rounded(truth):
    """The results of a kernel that computes the truth, and rounds it once."""
    with np.errstate(all="ignore"):
        return [np.asarray(expected.value).astype(expected.dtype) for expected in truth.outputs]


def _computed(operator, inputs):
    return _rounded(operator.truth(*inputs))


def _status(results, truth):
    return judge(results, truth).status


def _differs(one, other):
    return any(not np.array_equal(a, b, equal_nan=True) for a, b in zip(one, other, strict=True))


def test_rounded_truth_passes_with_finite_margins(case):
    assert all(expected.margin is None or np.isfinite(expected.margin).all() for expected in case.truth.outputs)
    assert _status(case.right, case.truth) is Status.PASSED


SPARSE = ("csr_matvec", "csr_rmatvec", "csr_matmat", "csr_binary_matvec", "csr_binary_rmatvec")
STRUCTURE = dict.fromkeys(SPARSE, (1, 2))
"""The inputs that say where elements are. They have no terms to drop."""


def test_dropped_element_is_refused(case):
    """Each input loses an element: the last one, or the one before that is not among the smallest."""
    if (case.operator.name, case.dtype, case.inputs[0].size) == ONE_OF_MANY_SQUARES:
        pytest.skip("loses too little of its sum")
    for index, array in enumerate(case.inputs):
        if array.size == 1 or array.dtype.kind not in "iuf" or index in STRUCTURE.get(case.operator.name, ()):
            continue
        magnitudes = np.abs(array.reshape(-1))
        for place in np.flatnonzero(magnitudes >= np.median(magnitudes))[:-21:-1]:
            spoiled = array.copy()
            spoiled.flat[place] = 0
            wrong = _computed(case.operator, (*case.inputs[:index], spoiled, *case.inputs[index + 1 :]))
            if _differs(wrong, case.right):  # no result may depend on this element, as in a maximum
                assert _status(wrong, case.truth) is Status.WRONG_VALUE, f"input {index}[{place}]"
                break


ROUNDED_INPUTS_AVERAGE_OUT = {"mean_std", "derived mean", "derived norm"}
"""Their results move by a few units in the last place if each input is rounded to 11 bits, because the errors of the
inputs cancel: a kernel that adds in another order is as far off. Whole numbers show such a kernel."""

ONE_OF_MANY_SQUARES = ("derived norm", "float32", 100_003)
"""One of 100,003 squares is less than the last places that a sum of so many positive terms may lose in one chain."""


def test_inputs_rounded_to_eleven_bits_are_refused(case):
    if case.dtype not in ("float32", "float64"):
        pytest.skip("has no more than 11 bits")
    wrong = _computed(case.operator, tuple(map(_in_eleven_bits, case.inputs)))
    average_out = case.operator.name in ROUNDED_INPUTS_AVERAGE_OUT and case.dtype == "float32"
    if _differs(wrong, case.right) and not average_out:
        assert _status(wrong, case.truth) is Status.WRONG_VALUE


def _in_eleven_bits(array):
    if array.dtype.kind != "f":
        return array
    fraction, exponent = np.frexp(array)
    return np.ldexp(np.rint(fraction * 2.0**11) / 2.0**11, exponent).astype(array.dtype)


def test_results_of_a_narrower_type_are_refused(case):
    narrower = {"float32": np.float16, "float64": np.float32}.get(case.dtype)
    if narrower is None:
        pytest.skip("is not compared with a narrower type")
    if case.dtype == "float32" and all(each.size == 1 for each in case.right):
        pytest.skip("has one result, which may be near a number of the narrower type")
    with np.errstate(over="ignore"):
        wrong = [each.astype(narrower).astype(each.dtype) if each.dtype.kind == "f" else each for each in case.right]
    if _differs(wrong, case.right):
        assert _status(wrong, case.truth) is Status.WRONG_VALUE


def test_last_output_that_is_slightly_off_is_refused(case):
    """By less than a thousandth of the largest output, or of the size of the terms where there is one output."""
    for index, result in enumerate(case.right):
        if not result.size:
            continue
        wrong = [each.copy() for each in case.right]
        if result.dtype.kind in "iu":
            wrong[index].flat[-1] += 1
        elif result.dtype.kind == "f":
            scale = np.abs(result[np.isfinite(result)]).max()
            if not scale:
                continue
            if case.operator.name in ("sum", "derived sum", "derived dot"):
                scale = max(scale, np.sqrt(np.square(case.inputs[0]).sum()))
            wrong[index].flat[-1] += scale * {"float16": 0.05, "float32": 3e-4, "float64": 1e-9}[case.dtype]
        assert _status(wrong, case.truth) is Status.WRONG_VALUE


# Whole numbers.

WHOLE = ("sum", "block_sum", "cumsum", "matvec", *SPARSE)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", [*WHOLE, "scatter_add", "scale_add", "stencil", "linear_recurrence"])
def test_sums_of_whole_numbers_have_no_margin(name, size):
    """A float32 sum of whole numbers is exact in every order. So the truth accepts the right one and no other."""
    operator, random = operators()[name], np.random.default_rng(size)
    inputs = tuple(
        random.integers(-8, 9, array.shape).astype(array.dtype) if array.dtype.kind == "f" else array
        for array in operator.sample("float32", size, SEED)
    )
    if name == "linear_recurrence":
        inputs = (np.sign(inputs[0]), *inputs[1:])
    for truth in (operator.truth(*inputs), derived_truth(operator.reference, inputs)):
        right = _rounded(truth)
        assert _status(right, truth) is Status.PASSED
        wrong = [each.copy() for each in right]
        wrong[0].flat[-1] += 1
        assert _status(wrong, truth) is Status.WRONG_VALUE
        if name in WHOLE:
            assert not truth.outputs[0].margin.any()


def test_whole_numbers_are_exact_in_any_order_and_not_beyond_the_significand():
    x = np.random.default_rng(0).integers(-1000, 1000, 10_000).astype(np.float32)
    truth = derived_truth(jnp.sum, (x,))
    for order in (x, x[::-1], np.sort(x)):
        assert _status([np.cumsum(order)[-1]], truth) is Status.PASSED
    assert _status([np.sum(x[:-1])], truth) is Status.WRONG_VALUE
    large = x * 4000 + 1
    (expected,) = derived_truth(jnp.sum, (large,)).outputs
    assert expected.margin > 0  # partial sums may be larger than 2**24


def test_products_of_halves_and_quarters_are_exact_with_and_without_fused_multiplication():
    x, y = (np.random.default_rng(seed).integers(-64, 64, 4096).astype(np.float32) / 4 for seed in (1, 2))
    (expected,) = derived_truth(lambda x, y: jnp.dot(x, y, precision="highest"), (x, y)).outputs
    assert expected.margin == 0
    assert np.float32(expected.value) == np.cumsum(x * y)[-1]


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_quantum_divides_all_elements(dtype):
    values = np.array([3, -4.5, 0, 6], np.dtype(dtype))
    assert quantum(values) == 0.5
    assert quantum(values, np.full(1, 0.25, values.dtype)) == 0.25
    assert np.array_equal(quantum(values.reshape(2, 2), axis=1), [0.5, 2])
    assert quantum(np.zeros(3, values.dtype)) == np.inf
    assert quantum(np.array([1, np.nan], values.dtype)) == 0


def test_quantum_of_complex_and_whole_numbers():
    assert quantum(np.array([2 + 0.5j, 4], np.complex64)) == 0.5
    assert quantum(np.array([12, 8])) == 4
    assert nothing_rounded(2.0**24, 1.0, 24, 1e-38)
    assert not nothing_rounded(2.0**24 + 1, 1.0, 24, 1e-38)
    assert not nothing_rounded(1e-40, 1e-41, 24, 1e-38)  # may be flushed to zero


# The probabilistic bound.


def _in_order(terms, lanes=1):
    """A float32 sum of the terms one after the other, in several lanes that are added up at the end."""
    rows = np.resize(terms, (len(terms) // lanes, lanes))
    return np.cumsum(np.cumsum(rows, axis=0, dtype=np.float32)[-1], dtype=np.float32)[-1]


DATA = {
    "normal": lambda random, n: random.standard_normal(n),
    "positive": lambda random, n: random.random(n),
    "sorted": lambda random, n: np.sort(random.standard_normal(n)),
    "alternating": lambda random, n: random.random(n) * np.resize([1, -1], n),
    "waves": lambda random, n: np.sin(np.arange(n) / 1000) + random.random(n) / 100,
    "ramp": lambda random, n: np.linspace(-1, 1, n),
    "heavy tails": lambda random, n: random.standard_cauchy(n),
    "few values": lambda random, n: random.choice([0.1, 0.3], n),
    "one value": lambda random, n: np.full(n, 0.1),
    "powers": lambda random, n: 10.0 ** random.uniform(-5, 5, n),
    "mostly zero": lambda random, n: random.standard_normal(n) * (random.random(n) < 0.01),
    "two parts": lambda random, n: np.repeat([1.0, -1.0], n // 2) * (1 + random.random(n)),
}


@pytest.mark.parametrize("lanes", [1, 2, 8, 256])
@pytest.mark.parametrize("name", DATA)
def test_right_sums_of_any_order_keep_to_the_bound(name, lanes):
    """In order, in reverse, drawn, and in lanes: the bound holds for adversarial data, and is small for random ones."""
    random = np.random.default_rng(lanes)
    for size in (4096, 2**18):
        terms = DATA[name](random, size).astype(np.float32)
        for truth in (derived_truth(jnp.sum, (terms,)), operators()["sum"].truth(terms)):
            if truth.outputs[0].value.shape and lanes < 256:
                continue  # a chain of more roundings than this operator's kernels may have
            for order in (terms, terms[::-1], random.permutation(terms)):
                got = np.full(truth.outputs[0].value.shape, _in_order(order, lanes), np.float32)
                verdict = judge([got], truth)
                assert verdict.status is Status.PASSED, verdict.reason


def test_bound_of_random_terms_is_far_below_the_worst_case():
    x = np.random.default_rng(0).standard_normal(100_003).astype(np.float32)
    (expected,) = derived_truth(jnp.sum, (x,)).outputs
    assert expected.margin < 0.05 < gamma(x.size, np.float32) * np.abs(x).sum() / 1000
    assert expected.margin < 2 * DEVIATIONS * 2.0**-24 * np.sqrt(x.size) * np.sqrt(np.square(x).sum()) * 2


def test_worst_case_remains_where_it_is_smaller_or_nothing_is_random():
    x = np.random.default_rng(0).standard_normal(8).astype(np.float32)
    sizes = np.abs(x.astype(np.float64)).sum()
    assert sum_error(sizes, partial_sums(x), 7, 2.0**-24) == pytest.approx(7 * 2.0**-24 * sizes)
    assert partial_sums(np.full(100, 0.1)) == np.inf
    assert few_values(np.full(100, 0.1))
    assert not few_values(np.random.default_rng(0).standard_normal(100))
    assert not few_values(np.zeros(100))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("size", [2100, 100_003])
def test_sums_in_narrow_types_have_a_finite_bound_that_refuses_zero(dtype, size):
    random = np.random.default_rng(0)
    for x in (random.random(size), 1 + random.standard_normal(size)):
        x = x.astype(dtype)
        narrow = bounded(
            np.asarray(x.astype(np.float64).sum()), x.dtype, partial=partial_sums(x), terms=size,
            condition=np.abs(x.astype(np.float64)).sum(),
        )  # fmt: skip
        assert narrow.margin <= MOST * np.abs(x.astype(np.float64)).sum() + 1
        for truth in (Truth((narrow,)), derived_truth(jnp.sum, (x,))):
            with np.errstate(over="ignore"):
                right = np.asarray(truth.outputs[0].value).astype(x.dtype)
            assert _status([right], truth) is Status.PASSED
            assert _status([np.zeros((), x.dtype)], truth) is Status.WRONG_VALUE


def test_partial_sums_are_the_same_along_axes_of_segments_and_of_running_sums():
    x = np.random.default_rng(0).standard_normal((6, 700))
    rows = partial_sums(x, 1)
    assert rows == pytest.approx(partial_sums(x.T, 0))
    assert rows == pytest.approx(np.array([partial_sums(row) for row in x]))
    assert rows == pytest.approx(running_sums(x, 1)[:, -1], rel=0.05)
    targets = np.repeat(np.arange(6), 700)
    assert rows == pytest.approx(partial_sums_at(x.reshape(-1), targets, 6), rel=0.05)
    order = np.random.default_rng(1).permutation(x.size)
    shuffled = partial_sums_at(x.reshape(-1)[order], targets[order], 7)
    assert (shuffled[:6] < 3 * rows).all()
    assert shuffled[6] == 0
    assert running_sums(x, 1, reverse=True)[:, 0] == pytest.approx(rows, rel=0.05)


def test_partial_sums_of_what_is_not_finite_are_unknown():
    x = np.random.default_rng(0).standard_normal(50)
    x[20] = np.inf
    assert partial_sums(x) == np.inf
    running = running_sums(x)
    assert np.isfinite(running[:20]).all()
    assert np.isinf(running[20:]).all()
    assert np.array_equal(np.isinf(partial_sums_at(x, np.arange(50) // 10, 5)), [False, False, True, False, False])


def test_large_integers_are_compared_to_the_last_bit():
    value = np.array([2**62 + 1, 5])
    # With a margin, as integers have that depend on a rounded number.
    for expected in (exact(value), Expected(value, value.dtype, np.array([0.0, 1.0]))):
        truth = Truth((expected,))
        assert _status([value.copy()], truth) is Status.PASSED
        assert _status([value + np.array([1, 0])], truth) is Status.WRONG_VALUE
        assert _status([value.astype(np.int32).astype(np.int64)], truth) is Status.WRONG_VALUE


def test_every_reference_of_these_tests_has_a_derived_bound():
    for name in DERIVED:
        assert explain_truth(DERIVED[name], Derived(name).sample("float32", 257, 0)) == "derived bound", name
