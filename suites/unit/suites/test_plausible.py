"""Times that no device can have are refused, and so are kernels that stop working while they are timed."""

import numba
import numpy as np
import pytest

from reports import ProcessTimes, RecordError, Status, Timing
from suites import Backend, Operator
from suites.bench import two_clocks
from suites.bench.bandwidth import Roof
from suites.bench.plausible import MOST_FLOPS_PER_CORE, ClockError, implausible, require_elapsed
from suites.bench.timed_process import TimedProcess
from suites.bench.two_points import TwoPoints
from suites.cells.case import Case
from suites.mutants.memory import address_of_zeros, array_at

LIMIT = Roof(1e11, "copy, L2 cache")
CALLS = address_of_zeros(1, np.int64)


def _timing(ns, cache="hot"):
    return Timing(method="wall", cache=cache, processes=[ProcessTimes(samples_ns=[ns])], stop="test")


@pytest.fixture(autouse=True)
def measured(monkeypatch):
    monkeypatch.setattr("suites.bench.plausible.roof", lambda read, written, **reached: LIMIT)


@pytest.mark.parametrize(("ns", "refused"), [(1000, False), (600, False), (400, True), (1, True)])
def test_more_than_twice_the_bandwidth_is_refused(ns, refused):
    reason = implausible("cpu", _timing(ns), (60_000, 40_000), None, LIMIT)
    assert bool(reason) == refused
    if refused:
        assert "is faster than the memory of this device (copy, L2 cache: 100 GB/s)" in reason


@pytest.mark.parametrize(("ns", "refused"), [(1000, False), (850, False), (750, True)])
@pytest.mark.parametrize("cache", ["hot", "cold"])
def test_a_gpu_has_less_room_because_its_bandwidth_does_not_move(monkeypatch, cache, ns, refused):
    monkeypatch.setattr("suites.bench.plausible.gpu.is_cold", lambda size: False)
    assert bool(implausible("cuda", _timing(ns, cache), (60_000, 40_000), None, LIMIT)) == refused


def test_more_operations_than_the_cores_have_are_refused():
    assert "operations per second" in implausible(
        "cpu", _timing(1e6), (1, 1), int(1e-3 * 1e4 * MOST_FLOPS_PER_CORE), LIMIT
    )
    assert implausible("cpu", _timing(1e6), (1, 1), 10**6, LIMIT) is None


def test_samples_must_add_up_to_the_time_that_passed():
    require_elapsed(0.9, 1.0)
    with pytest.raises(ClockError, match="add up to 100 ms, but took 1e\\+03 ms by another clock"):
        require_elapsed(0.1, 1.0)


def test_both_clocks_tell_the_same_time_and_nobody_replaces_them(monkeypatch):
    import time

    monkeypatch.setattr(time, "perf_counter", lambda: 0.0)
    starts = two_clocks.wall(), two_clocks.system()
    time.sleep(0.02)
    wall, system = two_clocks.wall() - starts[0], two_clocks.system() - starts[1]
    assert wall >= 0.02
    assert abs(wall - system) < 0.01


@numba.njit
def tires(x, out):
    """Does nothing from its thousandth call on."""
    calls = array_at(CALLS, 1, np.int64)
    calls[0] += 1
    if calls[0] < 1000:
        for i in range(x.size):
            out[i] = 2 * x[i]


@numba.njit
def double(x, out):
    for i in range(x.size):
        out[i] = 2 * x[i]


@pytest.mark.parametrize(
    ("kernel", "statuses"), [(double, [Status.PASSED]), (tires, [Status.WRONG_VALUE, Status.UNWRITTEN_OUTPUT])]
)
@pytest.mark.parametrize("size", [64, 200_000])
def test_a_timed_program_must_still_be_right(kernel, statuses, size):
    operator = Operator(name="double", reference=lambda x: 2 * x, kernels={"numba": kernel})
    case = Case(operator, Backend.NUMBA, "float32", size, "cpu")
    array_at(CALLS, 1, np.int64)[0] = 0
    process = TimedProcess({case.cell.key: case}, lambda cell: None)
    assert process.prepare(case.cell.key, judged=True).status is Status.PASSED
    seconds = 0.05 if kernel is double else 1.0  # until its thousandth call
    (result,) = process.turn([case.cell.key], seconds, last=True, measures=False)
    assert result.status in statuses, result.reason
    assert (result.timing is None) == (kernel is tires)


def test_a_kernel_whose_time_noise_hides_must_still_be_right(monkeypatch):
    operator = Operator(name="double", reference=lambda x: 2 * x, kernels={"numba": tires})
    case = Case(operator, Backend.NUMBA, "float32", 64, "cpu")
    array_at(CALLS, 1, np.int64)[0] = 0

    def hidden(self):
        raise RecordError("timing: the noise is larger than the time of the calls")

    monkeypatch.setattr(TwoPoints, "times", hidden)
    process = TimedProcess({case.cell.key: case}, lambda cell: None)
    process.prepare(case.cell.key, judged=True)
    (result,) = process.turn([case.cell.key], 0.05, last=True, measures=False)
    assert result.status in (Status.WRONG_VALUE, Status.UNWRITTEN_OUTPUT)
