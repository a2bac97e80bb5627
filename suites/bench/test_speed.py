"""Times each cell, after a check that it is right; each leaves a record, and statistics of pytest-benchmark."""

import pytest

from reports import Status
from suites.bench.per_call_clock import PerCallClock

CLOCK = PerCallClock()


@pytest.mark.benchmark(timer=CLOCK.now)
def test_speed(speed_case, benchmark, timed_result):
    if benchmark.disabled:
        pytest.fail("pytest-benchmark is disabled (--benchmark-disable, or xdist), so nothing can be timed; enable it.")
    result = timed_result(speed_case)
    assert result.status is Status.PASSED, f"{result.status}: {result.reason}"
    CLOCK.replay(benchmark, result.timing.samples_ns)
