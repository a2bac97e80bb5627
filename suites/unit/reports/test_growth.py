"""The growth of memory: a steady leak is found, one step or noise is not."""

import numpy as np
import pytest

from reports import Endurance, MemorySample, RecordError, Status
from reports.pages.endurance_table import endurance_tables
from reports.pages.grown import leak
from reports.statistics.growth import growth
from suites.unit.reports.builders import make_cell, make_record, make_run

COUNTS = [1000 * step for step in range(41)]
NOISE = np.random.default_rng(1).integers(0, 40, len(COUNTS)) * 4096


def endured(sizes, allowed=1_000_000, device=None):
    samples = [
        MemorySample(
            count=count,
            seconds=count * 1e-6,
            resident_bytes=int(size),
            device_bytes=device and device[index],
            processor_s=count**2 * 1e-9,
        )
        for index, (count, size) in enumerate(zip(COUNTS, sizes, strict=True))
    ]
    return Endurance(unit="call", samples=samples, allowed_bytes=allowed)


def test_the_slope_of_a_line_is_exact():
    found = growth(COUNTS, [7 + 3 * count for count in COUNTS])
    assert (found.slope, found.low, found.high) == (3, 3, 3)


def test_a_steady_leak_is_found_in_noise():
    found = growth(COUNTS, [48 * count + noise for count, noise in zip(COUNTS, NOISE, strict=True)])
    assert found.low < 48 < found.high
    assert leak(endured([48 * count + noise for count, noise in zip(COUNTS, NOISE, strict=True)]))


@pytest.mark.parametrize("step", [1, 10, 39])
def test_one_step_and_noise_are_no_leak(step):
    sizes = [5e6 * (index >= step) + noise for index, noise in enumerate(NOISE)]
    assert leak(endured(sizes)) is None


def test_a_leak_of_the_gpu_alone_is_found():
    flat = [10_000_000] * len(COUNTS)
    reason = leak(endured(flat, device=[100 * count for count in COUNTS]))
    assert reason is not None
    assert reason.startswith("memory of the GPU grew by 100 bytes")
    assert leak(endured(flat, device=flat)) is None


def test_growth_without_a_limit_is_only_reported():
    assert leak(endured([1e6 * count for count in COUNTS], allowed=None)) is None


def test_samples_that_contradict_each_other_are_refused():
    with pytest.raises(RecordError, match="at least 2"):
        Endurance(unit="call", samples=[MemorySample(count=0, seconds=0.0, resident_bytes=1)])
    with pytest.raises(RecordError, match="counts that rise"):
        Endurance(unit="call", samples=[MemorySample(count=1, seconds=0.0, resident_bytes=1)] * 2)
    falling = [MemorySample(count=n, seconds=n, resident_bytes=1, processor_s=5 - n) for n in (1, 2)]
    with pytest.raises(RecordError, match="processor_s=3 of the sample of count 2 follows 4"):
        Endurance(unit="call", samples=falling)


def test_the_table_shows_costs_growth_and_what_did_not_pass():
    run = make_run(profile="endure")
    good = make_record(
        make_cell(operator="calls", params={"calls": 40_000}), None, run=run, endurance=endured([8 * c for c in COUNTS])
    )
    bad = make_record(make_cell(operator="threads", backend="omp"), run=run, status=Status.TIMEOUT, reason="not done")
    table, failed = endurance_tables([good, bad])
    first = [text.text for text in table.rows[0].cells]
    assert first[:9] == ["calls", "numba", "40,000", "calls", "40.0 ms", "1.00 µs", "1.00 µs", "8.00 µs", "72.0 µs"]
    assert first[9:] == ["8.000 B", "8.000 B\N{EN DASH}8.000 B", "\N{EN DASH}", "320 kB", "PASSED"]
    assert [text.text for text in failed.rows[0].cells] == ["threads", "omp", "TIMEOUT", "not done"]
