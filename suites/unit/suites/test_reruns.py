"""A check that failed says why results vary: a race, state between calls, or memory that nobody set."""

import jax.numpy as jnp
import numba
import numpy as np
import pytest

from reports import Status
from suites import Operator
from suites.backends import BACKENDS
from suites.cells.case import Case
from suites.checks.judging.evidence import CheckFailed
from suites.checks.reruns import with_cause
from suites.mutants.memory import address_of_zeros, array_at
from suites.numerics.verdict import ResultVerdict
from suites.unit.suites.named_checks import run_check

COUNT, KEPT, SIZE = address_of_zeros(1, np.int64), address_of_zeros(1 << 20, np.float32), address_of_zeros(1, np.int64)


@numba.njit
def counts(x, out):
    calls = array_at(COUNT, 1, np.int64)
    calls[0] += 1
    out[:] = x + calls[0]


@numba.njit
def keeps(x, out):
    kept, size = array_at(KEPT, 1 << 20, np.float32), array_at(SIZE, 1, np.int64)
    if size[0] != x.size:
        kept[: x.size] = x
        size[0] = x.size
    out[:] = kept[: x.size]


@numba.njit
def adds_to_output(x, out):
    for i in range(x.size):
        out[i] += x[i]


@numba.njit
def adds_to_scratch(x, out):
    scratch = np.empty(x.size, x.dtype)
    for i in range(x.size):
        scratch[i] += x[i]
    out[:] = scratch


def _case(kernel):
    operator = Operator(name="copy", reference=lambda x: x + 0, kernels={"numba": kernel}, dtypes=("float32",))
    return Case(operator, BACKENDS["numba"], "float32", 33, "cpu")


@pytest.mark.parametrize(
    ("kernel", "cause"),
    [
        (counts, "keeps state between calls: the same call gives another result each time"),
        (keeps, "keeps state between calls: a call returns the result of the call before it, on other inputs"),
        (adds_to_output, "reads output 0 before it sets it, and is right only if the output holds zeros"),
        (adds_to_scratch, "reads memory that it allocates before it sets it"),
    ],
)
def test_results_that_vary_are_called_by_their_cause(kernel, cause):
    verdict = with_cause(_case(kernel), ResultVerdict(Status.WRONG_VALUE, "off", None))
    assert (verdict.status, verdict.cause) == (Status.NONDETERMINISTIC, cause)
    assert verdict.words == f"{cause}: off"


def test_a_verdict_that_no_memory_explains_is_left_as_it_is():
    verdict = ResultVerdict(Status.OUT_OF_BOUNDS, "outside", None)
    assert with_cause(_case(counts), verdict) is verdict


@numba.njit(parallel=True)
def lost_updates(bins, out):
    out[:] = 0
    for i in numba.prange(bins.size):
        out[bins[i]] += 1


def test_a_race_is_called_a_race():
    def reference(bins):
        return jnp.zeros(16, jnp.int32).at[bins].add(1)

    kernels = {"numba_parallel": lost_updates}
    operator = Operator(name="bins", reference=reference, kernels=kernels, dtypes=("int32",), shapes=("n in 0..15",))
    found = None
    for _ in range(5):  # threads that wait for a core, which another process has, do not race
        try:
            run_check("repeat", operator, BACKENDS["numba_parallel"], dtype="int32")
        except CheckFailed as failed:
            found = failed.verdict
            break
    assert found is not None, "no call of five sessions lost an update"
    verdict = with_cause(Case(operator, BACKENDS["numba_parallel"], "int32", 33, "cpu"), found)
    assert verdict.cause == "a race between threads: right with parallel=False, wrong in parallel"
    assert verdict.status is Status.NONDETERMINISTIC
