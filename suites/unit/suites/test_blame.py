"""An exception is the kernel's fault only if nothing else was running."""

import jax
import jax.numpy as jnp
import numba
import numpy as np
import pytest

from reports import Status
from suites import Operator
from suites.backends import BACKENDS
from suites.checks.drawn.drawn_truth import judge_battery
from suites.checks.judging.cell_verdict import judge_kernel
from suites.checks.judging.evidence import Evidence, outcome
from suites.checks.judging.memory import WrittenBeyond
from suites.checks.judging.reasons import error_text, status_of
from suites.unit.bridge import kernels


def _operator(**changes):
    return Operator(name="twice", reference=lambda x: 2 * x, kernels={"numba": kernels.double}, **changes)


def _truth(x):
    raise ValueError("no truth today")


def _raised(function, *arguments):
    with pytest.raises(Exception) as caught:  # noqa: PT011 - any
        function(*arguments)
    return caught


def test_a_truth_that_raises_says_nothing_of_the_kernel():
    operator = _operator(truth=_truth)
    caught = _raised(judge_kernel, operator, BACKENDS["numba"], (np.ones(3, np.float32),))
    assert outcome(caught)[0] is Status.UNCHECKED
    assert "ValueError: no truth today (not from the kernel, but from answers.py:" in outcome(caught)[1]


def test_a_reference_and_a_sample_that_raise_say_nothing_of_the_kernel():
    def reference(x):
        return 2 * x if isinstance(x, jax.ShapeDtypeStruct) else 1 / 0

    broken = Operator(name="twice", reference=reference, kernels={"numba": kernels.double}, sample=lambda *_: 1 / 0)
    for function, arguments in ((broken.reference, (jnp.ones(3),)), (broken.sample, ("float32", 3, 0))):
        assert status_of(_raised(function, *arguments).value) is Status.UNCHECKED


def test_an_error_in_a_check_says_nothing_of_the_kernel():
    caught = _raised(Evidence().require, None)
    status, reason = outcome(caught)
    assert status is Status.UNCHECKED
    assert "the check itself, at evidence.py:" in reason


def test_an_error_in_a_users_function_around_a_kernel_is_the_kernels():
    def broken(x):
        raise KeyError("x")

    assert status_of(_raised(jax.jit(broken), jnp.ones(3)).value) is Status.RUNTIME_ERROR


@numba.njit
def refuses_infinity(x, out):
    for i in range(x.size):
        if x[i] == np.inf:
            raise ValueError("infinite")
        out[i] = 2 * x[i]


def test_a_kernel_that_raises_on_some_drawn_inputs_is_to_blame():
    """Some of these programs have run well before, so XLA's error is a ValueError."""
    operator = Operator(name="twice", reference=lambda x: 2 * x, kernels={"numba": refuses_infinity})
    verdicts = [each for _, each in judge_battery(operator, BACKENDS["numba"], "float32", 33, jax.devices("cpu")[0])]
    assert {each.status for each in verdicts} == {Status.PASSED, Status.RUNTIME_ERROR}
    assert any("raised ValueError: infinite" in str(each.reason) for each in verdicts)


def test_what_is_written_behind_an_array_is_the_kernels():
    def filled(*arguments):
        raise WrittenBeyond("after the end of x")

    caught = _raised(filled)
    assert outcome(caught) == (Status.OUT_OF_BOUNDS, "WrittenBeyond: after the end of x")


@pytest.mark.parametrize(
    "error", [MemoryError("none left"), jax.errors.JaxRuntimeError("RESOURCE_EXHAUSTED: out of memory")]
)
def test_missing_memory_is_no_fault_of_the_kernel(error, monkeypatch):
    def fails(*arguments, **options):
        raise error

    monkeypatch.setattr("suites.checks.judging.cell_verdict.run_poisoned", fails)
    verdict = judge_kernel(_operator(), BACKENDS["numba"], (np.ones(5, np.float32),))
    assert verdict.status is Status.OOM
    assert not verdict.status.wrong
    assert error_text(error).startswith(type(error).__name__)


def test_an_exception_is_described_with_the_backend_or_generator_that_raised_it():
    error = KeyError("lost")
    error.add_note("(raised by the numba generator of the operator clip)")
    error.add_note("For simplicity, JAX has removed its internal frames")
    assert error_text(error) == "KeyError: 'lost' (raised by the numba generator of the operator clip)"
