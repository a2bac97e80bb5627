"""Drawn inputs judge wrong kernels and spare right ones: what is undecided is left out, and nothing else is."""

import jax
import jax.numpy as jnp
import numba
import numpy as np
import pytest

from reports import Status
from suites import Domain, Operator
from suites.backends import BACKENDS
from suites.checks.drawn import session_choices
from suites.checks.drawn.drawn_truth import battery_truths, drawn_truth, gradient_battery, judge_battery
from suites.checks.drawn.many_sizes import small_sizes
from suites.checks.judging.evidence import CheckFailed
from suites.ops import operators
from suites.unit.suites.named_checks import run_check


def _of(reference, kernel, dtype="float32", **fields):
    return Operator(name="drawn", reference=reference, kernels={"numba": kernel}, dtypes=[dtype], **fields)


def _failures(operator):
    device = jax.devices("cpu")[0]
    found = judge_battery(operator, BACKENDS["numba"], operator.dtypes[0], 5, device)
    return [verdict for _, verdict in found if verdict.status is not Status.PASSED]


@numba.njit
def _clamped(x, out):
    for i in range(x.size):
        out[i] = min(x[i], x.dtype.type(5)) if x[i] == x[i] else x[i]


@numba.njit
def _from_zero(x, out):
    for i in range(x.size):
        out[i] = 0 - x[i]


@numba.njit
def _never(x, out):
    for i in range(x.size):
        out[i] = False


@numba.njit
def _weighted(a, b, t, out):
    for i in range(a.size):
        out[i] = (1 - t[i]) * a[i] + t[i] * b[i]


@numba.njit
def _without_nan(x, out):
    for i in range(x.size):
        out[i] = max(x[i], x.dtype.type(-np.inf)) if x[i] == x[i] else 0


@numba.njit
def _saturating(x, y, out):
    for i in range(x.size):
        out[i] = 0 if y[i] == 0 else np.int32(min(np.trunc(x[i] / y[i]), 2147483647.0))


def _whole_quotient_reference(x, y):
    return jnp.where(y == 0, 0, jax.lax.div(x, jnp.where(y == 0, 1, y)))


@numba.njit
def _quotient(x, y, out):
    for i in range(x.size):
        out[i] = x[i] / y[i]


WRONG = {
    "clamp": (_of(lambda x: x + 0, _clamped), "x = np.array([7.0], np.float32)"),
    "zero": (_of(lambda x: -x, _from_zero), "wrong sign of zero"),
    "division": (_of(lambda x, y: x / y, _quotient), "error_model='numpy'"),
    "infinity": (
        _of(lambda a, b, t: a + t * (b - a), _weighted),
        "differs for infinite inputs only (if the kernel need not take NaN or infinities, declare domains={'a': "
        "suites.Domain(finite=True), 'b': suites.Domain(finite=True), 't': suites.Domain(finite=True)}): output 0[0]: ",
    ),
    "nan": (_of(lambda x: jnp.maximum(x, -jnp.inf), _without_nan), "differs for NaN inputs only (if"),
    "least integer": (_of(_whole_quotient_reference, _saturating, "int32"), "suites.Domain(least=-2147483647)"),
}


@pytest.mark.parametrize(("operator", "said"), WRONG.values(), ids=WRONG)
def test_wrong_kernel_fails_with_inputs_to_paste_or_a_cure(operator, said):
    assert said in _failures(operator)[0].words


@numba.njit
def _average(x, y, out):
    for i in range(x.size):
        out[i] = (x[i] + y[i]) >> 1


@numba.njit(error_model="numpy")
def _whole_quotient(x, y, out):
    for i in range(x.size):
        out[i] = x[i] // y[i]


@numba.njit
def _root_of_square(x, out):
    for i in range(x.size):
        out[i] = np.sqrt(x[i] * x[i])


@numba.njit
def _relu(x, out):
    for i in range(x.size):
        out[i] = x[i] if not x[i] < 0 else x.dtype.type(0)


RIGHT = {
    "int64 in Numba": _of(lambda x, y: (x + y) >> 1, _average, "int32"),
    "division of integers": _of(lambda x, y: x // y, _whole_quotient, "int32"),
    "overflow in between": _of(lambda x: jnp.sqrt(x * x), _root_of_square),
    "either zero": _of(lambda x: jnp.maximum(x, 0), _relu),
}


@pytest.mark.parametrize("operator", RIGHT.values(), ids=RIGHT)
def test_right_kernel_passes_where_its_result_is_decided(operator):
    assert _failures(operator) == []
    decided = [each.share for each in battery_truths(operator, operator.dtypes[0], 5)]
    assert np.mean(decided) > 0.5


def _is_right(reference, inputs, *results):
    operator = reference if isinstance(reference, Operator) else _of(reference, _never, inputs[0].dtype.name)
    drawn = drawn_truth(operator, "", inputs)
    return [drawn.judge([np.array(each, drawn.truth.outputs[0].dtype)]).status is Status.PASSED for each in results]


def test_elements_beside_undecided_ones_are_judged():
    inputs = (np.array([1e30, 3], np.float32),)
    found = _is_right(RIGHT["overflow in between"], inputs, [np.inf, 3], [1e30, 3], [np.inf, 4])
    assert found == [True, True, False]
    inputs = np.array([7, 7], np.int32), np.array([0, 2], np.int32)  # languages define a quotient by 0 in their own way
    assert _is_right(RIGHT["division of integers"], inputs, [123, 3], [123, 4]) == [True, False]


def test_an_integer_may_have_the_value_of_either_precision_and_no_other():
    def bins(x):
        return jnp.digitize(x, jnp.array([0.1, 0.3, 0.7], x.dtype)).astype(jnp.int32)

    inputs = (np.array([0.7, 0.2], np.float32),)  # float32 of 0.7 is below 0.7
    assert _is_right(bins, inputs, [2, 1], [3, 1], [1, 1], [9, 1]) == [True, True, False, False]
    most = 2**31 - 1
    assert _is_right(RIGHT["int64 in Numba"], (np.full(1, most, np.int32),) * 2, [most], [-1], [0]) == [
        True,
        True,
        False,
    ]


def test_an_exact_tie_has_one_right_value():
    def tie(x, s, *results):
        inputs = np.array([x], np.float32), np.array([s], np.float32)
        return _is_right(lambda x, s: jnp.round(x / s).astype(jnp.int32), inputs, *([each] for each in results))

    assert tie(2, 4, 0, 1) == tie(1.5, 3, 0, 1) == tie(25, 10, 2, 3) == [True, False]
    assert tie(-25, 10, -2, -3, -1) == [True, False, False]
    assert tie(24.5, 7, 4, 3) == [True, True]  # the product with a rounded seventh is below the tie
    assert tie(0.35, 0.1, 4, 3) == [True, True]  # not a tie of the numbers in float32
    above = [_is_right(lambda x: x / 10 > 0.5, (np.array([5], np.float32),), [each]) for each in (False, True)]
    assert above == [[True], [False]]


def test_an_integer_of_the_width_of_the_reference_has_one_right_value():
    def one(x):
        return jnp.asarray(1, x.dtype)

    least, words = (np.array([-(2**31)], np.int32),), (np.array([2**64 - 2], np.uint64),)
    assert _is_right(lambda x: jax.lax.shift_right_logical(x, one(x)), least, [2**30], [-(2**30)]) == [True, False]
    assert _is_right(lambda x: x >> one(x), words, [2**63 - 1], [2**64 - 1]) == [True, False]
    assert _is_right(lambda x: jax.lax.clz(x), (np.array([1], np.int32),), [31], [63]) == [True, False]
    assert _is_right(lambda x: jax.lax.div(x, -one(x)), least, [-(2**31)], [2**31 - 1], [0]) == [True, False, False]

    def saturating(x):
        most = jnp.iinfo(x.dtype).max
        return jnp.where(x > most - 9, most, x + 9)

    assert _is_right(saturating, (np.array([2**31 - 5], np.int32),), [2**31 - 1], [4 - 2**31]) == [True, False]


def test_a_maximum_without_the_last_element_of_each_part_is_seen_in_a_large_input():
    def maximum(part):
        @numba.njit
        def kernel(x, out):
            out[0] = x[0]
            for i in range(x.size):
                if (i % part < part - 1 or i == x.size - 1) and not x[i] <= out[0]:
                    out[0] = x[i]

        return kernel

    for part in (2048, 5000, 32768):
        operator = _of(lambda x: jnp.max(x, keepdims=True), maximum(part), domains={"x": Domain(finite=True)})
        with pytest.raises(CheckFailed, match="needles at "):
            run_check("large", operator, size=operator.sizes.large)
    right = _of(lambda x: jnp.max(x, keepdims=True), maximum(2**30), domains={"x": Domain(finite=True)})
    run_check("large", right, size=right.sizes.large)


def test_kinks_are_allowed_for_and_other_derivatives_are_not():
    for operator in (RIGHT["either zero"], operators()["sigmoid"]):
        drawn, *_ = gradient_battery(operator, "float32", 5)
        assert drawn.name == "zeros"
        (expected,) = drawn.truth.outputs
        inside = drawn.judge([np.asarray(expected.value * 0.9, np.float32)]).status is Status.PASSED
        assert inside == (operator.name != "sigmoid")


def test_sizes_follow_from_the_seed_and_have_every_kind():
    try:
        session_choices.use(1)
        first, full = small_sizes(operators()["add"], "float32", 0), small_sizes(operators()["add"], "float32", 1)
        session_choices.use(2)
        other = small_sizes(operators()["add"], "float32", 0)
        session_choices.use(1)
        assert first == small_sizes(operators()["add"], "float32", 0) != other
    finally:
        session_choices.use(0)
    assert {32, 64, 1024, 31, 33, 1023, 1025, 4096} <= set(full)
    assert any(size % 8 == 0 for size in first)
    assert len(first) <= 10 < len(full)
