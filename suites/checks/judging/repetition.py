"""Judges results of repeated inputs: one period against the truth, the others bit by bit against the first.

:mod:`suites.cells.repeated_inputs` makes such inputs, and says why.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from reports import Status
from suites.cells import repeated_inputs
from suites.checks.judging.remembered import truth
from suites.declare.operator import Operator
from suites.numerics.arrays import Inputs
from suites.numerics.verdict import Verdict, judge

Array = np.ndarray[Any, Any]


def judge_all(operator: Operator, results: list[Array], inputs: Inputs) -> Verdict:
    """Judges results like :func:`suites.numerics.verdict.judge`, but faster if the inputs repeat."""
    size = max(array.size for array in inputs)
    if not repeated_inputs.repeats(operator, size):
        return judge(results, truth(operator, inputs))
    period = repeated_inputs.PERIOD
    verdict = judge(
        [result.reshape(-1)[:period] for result in results],
        truth(operator, tuple(array.reshape(-1)[:period] if array.size == size else array for array in inputs)),
    )
    if verdict.status not in (Status.PASSED, Status.UNCHECKED):
        return verdict
    for index, result in enumerate(results):
        bits = result.reshape(-1).view(f"u{result.dtype.itemsize}")
        differ = bits[period:] != bits[:-period]
        if differ.any():
            place = period + int(differ.argmax())
            reason = (
                f"output {index}[{place}] is {result.flat[place]!s}, but {result.flat[place - period]!s} for the same "
                f"inputs one period of {period} elements before ({int(differ.sum())} such elements)"
            )
            return Verdict(Status.WRONG_VALUE, reason, verdict.accuracy)
    return verdict
