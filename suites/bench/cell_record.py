"""Checks a cell, times it if it is right, and returns the fields of its record."""

from __future__ import annotations

from typing import Any

import jax

from reports import ProcessTimes, Status, Timing
from suites.bench.first_call import stages
from suites.bench.plausible import ClockError
from suites.bench.sampling import PerCallClock, sample
from suites.bench.still_right import StillRight
from suites.bench.timing_plan import plan
from suites.cells.case import Case, input_types
from suites.cells.repeated_inputs import REPEATED_ABOVE
from suites.checks.judging.blame import status_of
from suites.checks.judging.cell_verdict import judge_kernel, with_reference
from suites.checks.judging.reasons import described
from suites.numerics.arrays import Inputs
from suites.numerics.precision import precision


def cell_record(case: Case, benchmark: Any, clock: PerCallClock, limit_s: float) -> dict[str, Any]:
    """Returns the fields of :class:`reports.Record` for one cell; a failure is a status with a reason.

    The result also has ``moved``: the bytes that a call reads and writes.

    Args:
        case: The cell.
        benchmark: The fixture of pytest-benchmark.
        clock: Its timer.
        limit_s: Seconds that sampling may take.
    """
    try:
        inputs = case.inputs()
        return _measured(case, inputs, benchmark, clock, limit_s) | _work(case, inputs)
    except Exception as error:  # an operator's own function raised; every cell leaves a record
        return {"status": status_of(error), "reason": described(error)}


def _measured(case: Case, inputs: Inputs, benchmark: Any, clock: PerCallClock, limit_s: float) -> dict[str, Any]:
    """Returns status, reason, accuracy, stages and timing, as far as the cell got."""
    with precision(case.dtype), jax.default_device(case.device):
        try:
            until_first_call, _ = stages(case.operator, case.backend, inputs)
        except Exception as error:
            return {"status": status_of(error, Status.COMPILE_ERROR), "reason": described(error)}
        verdict = judge_kernel(case.operator, case.backend, inputs, case.device)
        if case.size <= REPEATED_ABOVE:  # the reference's error would take seconds here; smaller cells show it
            verdict = with_reference(verdict, case.operator, inputs)
        found: dict[str, Any] = {
            "status": verdict.status,
            "reason": verdict.reason,
            "accuracy": verdict.accuracy,
            "stages": until_first_call,
        }
        if verdict.status is not Status.PASSED:
            return found
        # XLA's own code is no suspect; and truth for the largest inputs would take seconds.
        watched = case.backend.compiled and case.size <= REPEATED_ABOVE
        try:
            still_right = StillRight(case, inputs) if watched else None
            how = plan(case.operator, case.backend, inputs)
            seconds, stop = sample(benchmark, clock, how, limit_s)
            after = still_right.verdict(how) if still_right is not None else verdict
        except ClockError as error:
            return found | {"status": Status.UNCHECKED, "reason": str(error)}
        except Exception as error:
            return found | {"status": status_of(error), "reason": described(error)}
    if after.status is not Status.PASSED:
        return found | {"status": after.status, "reason": after.reason}
    process = ProcessTimes(samples_ns=[1e9 * each for each in seconds], loops=how.loops)
    return found | {"timing": Timing(method=how.method, cache=how.cache, processes=[process], stop=stop)}


def _work(case: Case, inputs: Inputs) -> dict[str, Any]:
    """Returns the work of a call: shapes, dtypes, floating-point operations, bytes."""
    shapes, dtypes = input_types(inputs)
    operator = case.operator
    moved = operator.bytes_read(*inputs), operator.bytes_written(*inputs)
    return {"shapes": shapes, "dtypes": dtypes, "flops": operator.flops(*inputs), "moved": moved}
