"""Times that no device can have are refused, and so are kernels that stop working while they are timed."""

import numba
import numpy as np
import pytest

from reports import ProcessTimes, RecordError, Status, Timing
from suites import Operator
from suites.backends import BACKENDS
from suites.bench.timed_process import TimedProcess
from suites.cells.case import Case
from suites.mutants.memory import address_of_zeros, array_at
from suites.timing.bandwidth import Roof
from suites.timing.device_limits import implausible
from suites.timing.measurement import TwoPoints
from suites.unit.bridge import kernels

LIMIT = Roof(1e11, "copy, L2 cache")
CALLS = address_of_zeros(1, np.int64)


@pytest.fixture(autouse=True)
def measured(monkeypatch):
    monkeypatch.setattr("suites.timing.device_limits.roof", lambda read, written, **reached: LIMIT)


@pytest.mark.parametrize(("ns", "refused"), [(1000, False), (300, False), (200, True), (1, True)])
def test_more_than_four_times_the_bandwidth_of_a_copy_is_refused(ns, refused):
    timing = Timing(method="wall", cache="hot", processes=[ProcessTimes(samples_ns=(ns,))], stop="test")
    reason = implausible(timing, (60_000, 40_000), LIMIT)
    assert bool(reason) == refused
    if refused:
        assert "is faster than the memory of this device (copy, L2 cache: 100 GB/s)" in reason


@numba.njit
def tires(x, out):
    """Does nothing from its thousandth call on."""
    calls = array_at(CALLS, 1, np.int64)
    calls[0] += 1
    if calls[0] < 1000:
        for i in range(x.size):
            out[i] = 2 * x[i]


def timed(kernel, size, seconds):
    """The result of a kernel that is right before it is timed."""
    operator = Operator(name="double", reference=lambda x: 2 * x, kernels={"numba": kernel})
    case = Case(operator, BACKENDS["numba"], "float32", size, "cpu")
    array_at(CALLS, 1, np.int64)[0] = 0
    process = TimedProcess({case.cell.key: case}, lambda cell: None)
    assert process.prepare(case.cell.key, checks=True).status is Status.PASSED
    (result,) = process.time([case.cell.key], seconds, last=True, measures=False)
    return result


@pytest.mark.parametrize(
    ("kernel", "statuses"), [(kernels.double, [Status.PASSED]), (tires, [Status.WRONG_VALUE, Status.UNWRITTEN_OUTPUT])]
)
@pytest.mark.parametrize("size", [64, 200_000])
def test_a_timed_program_must_still_be_right(kernel, statuses, size):
    seconds = 0.05 if kernel is kernels.double else 1.0  # until its thousandth call
    result = timed(kernel, size, seconds)
    assert result.status in statuses, result.reason
    assert (result.timing is None) == (kernel is tires)


def test_a_kernel_whose_time_noise_hides_must_still_be_right(monkeypatch):
    def hidden(self):
        raise RecordError("timing: the noise is larger than the time of the calls")

    monkeypatch.setattr(TwoPoints, "times", hidden)
    assert timed(tires, 64, 0.05).status in (Status.WRONG_VALUE, Status.UNWRITTEN_OUTPUT)
