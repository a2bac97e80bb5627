"""Every error budget refuses faults that a wide bound would hide: a dropped term, rounded inputs, a narrower type.

The wrong results are those of a right kernel on spoiled inputs, rounded from truth: no kernel is compiled.
"""

import jax.numpy as jnp
import numpy as np
import pytest

from reports import Status
from suites.cells.case import SEED
from suites.numerics.derived import derived_truth
from suites.numerics.error_model import Expected, Truth, exact
from suites.numerics.verdict import judge
from suites.ops import operators

SIZE = 2100

CASES = [
    (operator, dtype)
    for operator in operators().values()
    for dtype in operator.dtypes
    if (operator.name, dtype) != ("attention", "float64")  # its reference computes scores in float32
]


def _rounded(truth):
    """The results of a kernel that computes the truth, and rounds it once."""
    with np.errstate(all="ignore"):
        return [np.asarray(expected.value).astype(expected.dtype) for expected in truth.outputs]


def _status(results, truth):
    return judge(results, truth).status


def _in_eleven_bits(array):
    if array.dtype.kind != "f":
        return array
    fraction, exponent = np.frexp(array)
    return np.ldexp(np.rint(fraction * 2.0**11) / 2.0**11, exponent).astype(array.dtype)


def _dropped(operator, dtype, inputs, right):
    """Each input without an element, the last one that is not among the smallest."""
    structure = (1, 2) if operator.name.startswith("csr") else ()
    for index, array in enumerate(inputs):
        if array.size > 1 and array.dtype.kind in "iuf" and index not in structure:
            spoiled = array.copy()
            spoiled.flat[np.flatnonzero(np.abs(array.reshape(-1)) >= np.median(np.abs(array)))[-1]] = 0
            yield _rounded(operator.truth(*inputs[:index], spoiled, *inputs[index + 1 :]))


AVERAGE_OUT = ("mean_std", "rms_norm", "sum", "matvec", "csr_matvec", "csr_rmatvec")
"""Their results move by a few units in the last place if each float32 input is rounded to 11 bits, because the errors
of the inputs cancel: a kernel that adds in another order is as far off. Whole numbers show such a kernel."""


def _eleven_bits(operator, dtype, inputs, right):
    if dtype in ("float32", "float64") and not (dtype == "float32" and operator.name in AVERAGE_OUT):
        yield _rounded(operator.truth(*map(_in_eleven_bits, inputs)))


def _narrower(operator, dtype, inputs, right):
    """Results of a narrower type; a single one may happen to be a number of that type."""
    narrow = {"float32": np.float16, "float64": np.float32}.get(dtype)
    if narrow and not (dtype == "float32" and all(each.size == 1 for each in right)):
        with np.errstate(over="ignore"):
            yield [each.astype(narrow).astype(each.dtype) if each.dtype.kind == "f" else each for each in right]


def _slightly_off(operator, dtype, inputs, right):
    """The last element of an output is off by about a thousandth of the largest, or of the size of the terms."""
    for index, result in enumerate(right):
        wrong = [each.copy() for each in right]
        if result.dtype.kind in "iu":
            wrong[index].flat[-1] += 1
        elif result.dtype.kind == "f":
            scale = max(np.abs(result[np.isfinite(result)]).max(), np.sqrt(np.square(inputs[0].astype(float)).sum()))
            wrong[index].flat[-1] += scale * {"float16": 0.05, "float32": 1e-3, "float64": 1e-9}[result.dtype.name]
        yield wrong


FAULTS = {"dropped": _dropped, "eleven bits": _eleven_bits, "narrower": _narrower, "slightly off": _slightly_off}


@pytest.mark.parametrize(("operator", "dtype"), CASES, ids=lambda part: getattr(part, "name", part))
def test_rounded_truth_passes_and_faults_are_refused(operator, dtype):
    inputs = operator.sample(dtype, 257 if operator.name == "nbody" else SIZE, SEED)
    truth = operator.truth(*inputs)
    right = _rounded(truth)
    assert all(expected.margin is None or np.isfinite(expected.margin).all() for expected in truth.outputs)
    assert _status(right, truth) is Status.PASSED
    for name, fault in FAULTS.items():
        for wrong in fault(operator, dtype, inputs, right):
            if any(not np.array_equal(a, b, equal_nan=True) for a, b in zip(wrong, right, strict=True)):
                assert _status(wrong, truth) is Status.WRONG_VALUE, name


# Whole numbers.

WHOLE = ("sum", "cumsum", "matvec", "csr_matvec", "csr_rmatvec", "csr_matmat", "csr_binary_matvec")


@pytest.mark.parametrize("size", [SIZE, 100_003])
@pytest.mark.parametrize("name", [*WHOLE, "scatter_add", "stencil", "linear_recurrence"])
def test_sums_of_whole_numbers_have_no_margin(name, size):
    """A float32 sum of whole numbers is exact in every order. So the truth accepts the right one and no other."""
    operator, random = operators()[name], np.random.default_rng(size)
    inputs = tuple(
        random.integers(-8, 9, array.shape).astype(array.dtype) if array.dtype.kind == "f" else array
        for array in operator.sample("float32", size, SEED)
    )
    if name == "linear_recurrence":
        inputs = (np.sign(inputs[0]), *inputs[1:])
    truth = operator.truth(*inputs)
    right = _rounded(truth)
    assert _status(right, truth) is Status.PASSED
    wrong = [each.copy() for each in right]
    wrong[0].flat[-1] += 1
    assert _status(wrong, truth) is Status.WRONG_VALUE
    if name in WHOLE:
        assert not truth.outputs[0].margin.any()


def test_whole_numbers_are_exact_in_any_order_and_not_beyond_the_significand():
    x = np.random.default_rng(0).integers(-1000, 1000, 10_000).astype(np.float32)
    assert derived_truth(jnp.sum, (x,)).outputs[0].margin == 0
    assert derived_truth(jnp.sum, (x * 4000 + 1,)).outputs[0].margin > 0  # partial sums may be larger than 2**24


def test_large_integers_are_compared_to_the_last_bit():
    value = np.array([2**62 + 1, 5])
    # With a margin, as integers have that depend on a rounded number.
    for expected in (exact(value), Expected(value, value.dtype, np.array([0.0, 1.0]))):
        truth = Truth((expected,))
        assert _status([value.copy()], truth) is Status.PASSED
        assert _status([value + np.array([1, 0])], truth) is Status.WRONG_VALUE
