"""Each failed kernel has one line, with the cause that says most, and a bound that is left by little is explained."""

import jax.numpy as jnp
import numba
import numpy as np
import pytest

from reports import Accuracy, Status
from suites import Operator
from suites.backends import BACKENDS
from suites.checks.judging.cell_verdict import judge_kernel
from suites.checks.judging.reasons import failure_lines, with_inputs
from suites.numerics.verdict import ResultVerdict
from suites.unit.reports.builders import make_cell
from suites.validate.finding import Finding


def _found(mode, status, reason, used=None, **cause):
    accuracy = None if used is None else Accuracy(max_ulp=1.0, budget_used=used)
    cell = make_cell(operator="cube", mode=mode, size=33)
    return Finding(cell=cell, status=status, reason=reason, accuracy=accuracy, **cause)


WRONG = "output 0[0]: got 5.0, truth 7.0; inputs: x = np.array([7.0], np.float32)"


@pytest.mark.parametrize(
    ("status", "cause"),
    [
        (Status.UNWRITTEN_OUTPUT, "leaves elements unwritten"),
        (Status.OUT_OF_BOUNDS, "goes out of bounds"),
    ],
)
def test_the_most_specific_cause_of_many_is_named(status, cause):
    findings = [_found("eager", Status.WRONG_VALUE, WRONG), _found("guards", status, "said")]
    (line,) = failure_lines(findings, ["my_ops.py"])
    assert line.startswith(
        f"cube numba float32: {cause}: said (2 checks: eager, guards). Repeat: kernel-bridge validate"
    )
    assert line.endswith("my_ops.py --operator cube --backend numba --dtype float32 -v")


def test_every_dtype_that_failed_is_named_and_repeated():
    half = Finding(cell=make_cell(operator="cube", dtype="bfloat16"), status=Status.RUNTIME_ERROR, reason="said")
    (line,) = failure_lines([half, _found("drawn", Status.WRONG_VALUE, WRONG)], [])
    assert line.startswith("cube numba bfloat16 float32: raises")
    assert line.endswith("--dtype bfloat16 --dtype float32 -v")


def test_the_smallest_inputs_are_shown_and_the_imprecise_come_last():
    far = _found("vmap", Status.WRONG_VALUE, "far off; inputs: x: float32[33]", used=1e9)
    near = _found("drawn", Status.WRONG_VALUE, WRONG, used=3.0)
    assert "is wrong: far off" in failure_lines([near, far], [])[0]
    assert "is imprecise: output 0[0]" in failure_lines([near], [])[0]
    assert WRONG in failure_lines([far, _found("drawn", Status.WRONG_VALUE, WRONG, used=1e9)], [])[0]


@numba.njit
def _third(a, b, c, out):
    for i in range(a.size):
        out[i] = (a[i] + b[i] + c[i]) * np.float32(0.33333)


def test_a_bound_that_is_left_by_little_says_what_was_allowed_and_both_cures():
    operator = Operator(name="third", reference=lambda a, b, c: (a + b + c) / 3, kernels={"numba": _third})
    inputs = tuple(np.ones(2, np.float32) for _ in range(3))
    verdict = judge_kernel(operator, BACKENDS["numba"], inputs)
    assert verdict.status is Status.WRONG_VALUE
    assert "allowed +-" in verdict.reason
    assert "in the reference. If the kernel is right, declare tolerance=, or write" in verdict.reason


def test_an_input_is_printed_with_the_sign_of_its_nan():
    operator = Operator(name="sign", reference=jnp.signbit, kernels={"numba": numba.njit(lambda x, out: None)})
    for value, text in ((np.nan, "np.nan"), (-np.nan, "-np.nan")):
        found = with_inputs(
            ResultVerdict(Status.WRONG_VALUE, "wrong", None), operator, (np.array([value], np.float32),)
        )
        assert f"x = np.array([{text}], np.float32)" in found.reason


@numba.njit
def _third_off(x, out):
    for i in range(x.shape[0]):
        for j in range(x.shape[1]):
            out[i, j] = x[i, j] + ((i, j) == (3, 1))


def test_an_input_in_the_shape_of_the_result_is_shown_at_the_wrong_element():
    operator = Operator(name="same", reference=lambda x: x + 0, kernels={"numba": _third_off}, shapes=("m n",))
    x = np.arange(60, dtype=np.float32).reshape(20, 3)
    assert "x: float32[20, 3], x[3, 1] = 10.0" in judge_kernel(operator, BACKENDS["numba"], (x,)).reason


@numba.njit
def _precise(x, out):
    for i in range(x.size):
        out[i] = np.float64(x[i]) / 3 + np.float64(x[i]) / 3 / 4096 / 1024


def test_constants_of_a_reference_count_as_exact_and_the_reason_says_so():
    operator = Operator(name="third", reference=lambda x: x * 0.3333333, kernels={"numba": _precise})
    reason = judge_kernel(operator, BACKENDS["numba"], (np.array([1, -1.7], np.float32),)).reason
    assert "its constants count as exact, so that better ones are refused" in reason


def test_a_cause_that_is_known_comes_first():
    known = _found("vmap", Status.WRONG_VALUE, "known: far", cause="known")
    (line,) = failure_lines([_found("drawn", Status.WRONG_VALUE, WRONG, used=1e9), known], [])
    assert "is wrong: known: far (2 checks" in line
