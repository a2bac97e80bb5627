"""Checks each cell, then times it with pytest-benchmark in this process."""

from time import perf_counter

import jax
import pytest

from reports import Status
from suites.numerics.precision import precision
from suites.timing.timed_cell import TimedCell

ROUNDS, ROUND_S = 30, 1e-3


def test_speed(speed_case, benchmark):
    if benchmark.disabled:
        pytest.fail("pytest-benchmark is disabled (--benchmark-disable, or xdist), so nothing can be timed; enable it.")
    with precision(speed_case.dtype), jax.default_device(speed_case.device):
        cell = TimedCell(speed_case)
        cell.prepare(checks=True)
        assert cell.result.status is Status.PASSED, f"{cell.result.status}: {cell.result.reason}"
        arguments = [jax.device_put(array, speed_case.device) for array in speed_case.inputs()]

        def call():
            return jax.block_until_ready(cell.programs.single(*arguments))

        start = perf_counter()
        call()
        calls = max(1, round(ROUND_S / (perf_counter() - start)))
        benchmark.extra_info["cell"] = speed_case.cell.id
        benchmark.pedantic(call, rounds=ROUNDS, iterations=calls, warmup_rounds=1)
