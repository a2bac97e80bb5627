"""A pilot decides how many samples a cell gets, and pytest-benchmark's own statistics are those of the record."""

from __future__ import annotations

import itertools
import json
import statistics
import subprocess
import sys
from types import SimpleNamespace

import pytest

from reports import Status, find_run, read_run
from suites.bench.sampling import LEAST_SAMPLES, PerCallClock, Rounds, rounds, sample, stop_reason
from suites.bench.timing_plan import Plan
from suites.unit.processes import environment


class TestRounds:
    def test_a_quiet_cell_gets_the_least_number(self):
        assert rounds([1.0] * LEAST_SAMPLES, sample_s=1e-3, limit_s=1.0) == Rounds(LEAST_SAMPLES, is_cut=False)

    def test_noise_asks_for_as_many_as_the_square_root_law_says(self):
        noisy = [1.0, 1.02] * (LEAST_SAMPLES // 2)  # the median's error is 1 %, twice what is asked for
        found = rounds(noisy, sample_s=1e-6, limit_s=1.0)
        assert found.count == pytest.approx(4 * LEAST_SAMPLES, rel=0.05)
        assert not found.is_cut

    def test_the_time_limit_cuts_them(self):
        assert rounds([1.0, 2.0] * 15, sample_s=1e-3, limit_s=0.2) == Rounds(200, is_cut=True)

    def test_a_slow_cell_may_take_three_limits_for_the_least_number(self):
        assert rounds([1.0], sample_s=0.01, limit_s=0.2).count == LEAST_SAMPLES
        assert rounds([1.0], sample_s=0.1, limit_s=0.2).count == 6
        assert rounds([1.0], sample_s=0.1, limit_s=0.2, spent_s=0.1).count == 5
        assert rounds([1.0], sample_s=10.0, limit_s=0.2, spent_s=10.0).count == 1

    def test_batches_are_whole(self):
        assert rounds([1.0] * 10, sample_s=1e-3, limit_s=1.0, batch=20).count == 40


@pytest.mark.parametrize(
    ("samples", "is_cut", "reason"),
    [
        ([1.0] * LEAST_SAMPLES, True, "median known to 0.5 %"),
        ([1.0, 2.0] * LEAST_SAMPLES, False, "stable noise"),
        ([1.0, 2.0] * LEAST_SAMPLES, True, "time limit"),
        ([1.0, 2.0], False, "time limit"),
    ],
)
def test_sampling_ends_for_a_stated_reason(samples, is_cut, reason):
    assert stop_reason(samples, Rounds(len(samples), is_cut)) == reason


def _benchmark(clock):
    """Stands in for pytest-benchmark's fixture: reads the timer before and after each round."""
    data = []

    def pedantic(target, rounds):
        for _ in range(rounds):
            start = clock.now()
            target()
            data.append(clock.now() - start)

    return SimpleNamespace(pedantic=pedantic, stats=SimpleNamespace(stats=SimpleNamespace(data=data)))


def test_times_of_the_device_are_the_samples_and_the_pilot_counts():
    measured = (float(number) for number in itertools.count(1))
    clock = PerCallClock()
    plan = Plan("cupti", lambda: None, 1, "cold", measured, batch=5)
    samples, stop = sample(_benchmark(clock), clock, plan, limit_s=0.01)
    assert samples[:7] == [1, 2, 3, 4, 5, 6, 7]
    assert len(samples) % 5 == 0
    assert stop == "time limit"


def test_a_sample_of_many_calls_is_seconds_of_one():
    clock = PerCallClock()
    clock.follow_wall(1000)
    start, end = clock.now(), clock.now()
    assert 0 <= end - start < 1e-4


def test_the_json_of_pytest_benchmark_agrees_with_the_records(tmp_path):
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-p", "suites.plugin", "-q", "--kb-bench"]
    command += ["--pyargs", "suites.bench.test_speed", "--benchmark-json", "times.json", "--kb-operator", "relu"]
    command += ["--kb-dtype", "f32", "--kb-backend", "numba", "--kb-backend", "jnp"]
    command += ["--kb-size", "4096", "--kb-size", "1048576"]
    variables = environment(KERNEL_BRIDGE_RUNS="runs", PYTEST_XDIST_WORKER=None)
    done = subprocess.run(command, cwd=tmp_path, env=variables, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    timed = {
        each["param"]: each["stats"]
        for each in json.loads((tmp_path / "times.json").read_text(encoding="utf-8"))["benchmarks"]
    }
    records = {record.cell.id: record for record in read_run(find_run("latest", tmp_path / "runs"))}
    assert timed.keys() == records.keys()
    assert len(timed) == 4
    for name, record in records.items():
        assert record.status is Status.PASSED
        assert timed[name]["rounds"] == len(record.timing.samples_ns) >= 6
        assert 1e9 * timed[name]["median"] == pytest.approx(statistics.median(record.timing.samples_ns))
        assert 1e9 * timed[name]["median"] == pytest.approx(record.timing.median_ns)
    assert {record.timing.method for record in records.values()} == {"carried_loop", "wall"}
