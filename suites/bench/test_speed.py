"""Times each cell with pytest-benchmark, after a check that it is right; each leaves a record."""

import pytest

from reports import Status
from suites.bench.cell_record import cell_record
from suites.bench.sampling import PerCallClock

CLOCK = PerCallClock()


@pytest.mark.benchmark(timer=CLOCK.now)
def test_speed(speed_case, benchmark, recorder):
    if benchmark.disabled:
        pytest.fail("pytest-benchmark is disabled (--benchmark-disable, or xdist), so nothing can be timed; enable it.")
    record = recorder.record(speed_case, cell_record(speed_case, benchmark, CLOCK, recorder.limit_s))
    assert record.status is Status.PASSED, f"{record.status}: {record.reason}"
