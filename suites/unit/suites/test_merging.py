"""The results of several processes become one: all of their times, or the worst thing that happened to one of them."""

import pytest

from reports import CellResult, ProcessTimes, Stages, Status, Timing
from suites.bench.groups import chunks, group_cells
from suites.bench.merging import merge_results
from suites.processes import progress
from suites.processes.progress import Progress
from suites.unit.reports.builders import make_cell


def result(ns=None, status=Status.PASSED, cell=None, **more):
    timing = ns and Timing(method="wall", cache="hot", processes=[ProcessTimes(samples_ns=(ns,))], stop="s")
    reason = more.pop("reason", None if status is Status.PASSED else str(status))
    return CellResult(
        cell=cell or make_cell(), shapes=[[4]], dtypes=["float32"], seed=0, status=status, reason=reason, timing=timing,
        **more,
    )  # fmt: skip


def test_each_process_keeps_its_place():
    judged = result(stages=Stages(trace_ms=1.0))
    found = merge_results(
        judged, [result(3.0), result(1.0, bandwidth_limit=1e9, bandwidth_limit_kind="copy"), result(2.0)]
    )
    assert found.timing.medians_ns == [3.0, 1.0, 2.0]
    assert (found.status, found.stages.trace_ms, found.bandwidth_limit) == (Status.PASSED, 1.0, 1e9)


@pytest.mark.parametrize(
    ("judged", "statuses", "expected"),
    [
        (Status.PASSED, [Status.PASSED, Status.UNCHECKED, Status.PASSED], Status.UNCHECKED),
        (Status.PASSED, [Status.UNCHECKED, Status.WRONG_VALUE, Status.PASSED], Status.WRONG_VALUE),
        (Status.PASSED, [Status.OOM, Status.RUNTIME_ERROR, Status.CRASHED], Status.RUNTIME_ERROR),
        (Status.WRONG_VALUE, [Status.PASSED], Status.WRONG_VALUE),
        (Status.PASSED, [], Status.UNCHECKED),
    ],
)
def test_a_failure_in_one_process_is_the_result_and_so_is_that_of_the_judge(judged, statuses, expected):
    processes = [result(1.0 if status is Status.PASSED else None, status) for status in statuses]
    found = merge_results(result(status=judged), processes)
    assert found.status is expected
    assert found.timing is None


@pytest.mark.parametrize(
    ("hidden", "status", "times"), [(1, Status.PASSED, 3), (2, Status.UNCHECKED, None), (4, Status.UNCHECKED, None)]
)
def test_processes_in_which_noise_hid_the_time_are_left_out_unless_they_are_half(hidden, status, times):
    noisy = result(reason="the noise is larger than the calls")
    found = merge_results(result(), [noisy] * hidden + [result(1.0)] * (4 - hidden))
    assert found.status is status
    assert (found.timing and len(found.timing.processes)) == times
    assert (found.reason is None) == (status is Status.PASSED)
    assert status is Status.PASSED or f"the noise is larger than the calls ({4 - hidden} of 4 " in found.reason


def test_contests_stay_whole():
    cells = [make_cell(backend=backend, size=size) for size in (1, 2, 3) for backend in ("jnp", "numba")]
    groups = group_cells([*cells[::2], *cells[1::2]])
    assert [[cell.backend for cell in group] for group in groups] == [["jnp", "numba"]] * 3
    assert [len(chunk) for chunk in chunks(groups, 4)] == [2, 1]
    assert [len(chunk) for chunk in chunks(groups, 1)] == [1, 1, 1]
    assert chunks([], 4) == []


# A session says how long it may still take.


def test_the_time_left_is_that_of_the_items_that_a_phase_has_not_seen(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    session = Progress("cells", "prepare", "time")
    session.total = 4
    for phase, seconds in (("prepare", 2.0), ("time", 3.0)):
        assert session.left_s() is None
        now[0] += seconds
        session.step(phase)
    assert session.left_s() == 3 * 2.0 + 3 * 3.0
    session.step("prepare", items=5)  # another pool prepares the cells once more
    assert session.left_s() == 3 * 3.0
