"""A large result in, whether it is right out: by judging one period of it and comparing the others bit by bit.

Truth for 2**26 elements takes minutes of NumPy. Above :data:`REPEATED_ABOVE` elements the inputs of an elementwise
operator therefore repeat themselves with an odd period, which has nothing in common with the extents of blocks and
warps: what is right in the first period and the same in all others is right everywhere.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from reports import Status
from suites.declare.operator import Operator
from suites.inputs.arrays import Inputs
from suites.truth.verdict import Verdict, judge

REPEATED_ABOVE = 1 << 24
"""Elements up to which every element is an own one."""

PERIOD = 1025**2
"""Elements of a period: odd, and a square for the sake of matrices."""

Array = np.ndarray[Any, Any]


def repeats(operator: Operator, size: int) -> bool:
    """Whether samples of this size repeat themselves."""
    return operator.elementwise and size > REPEATED_ABOVE


def sample(operator: Operator, dtype: str, size: int, seed: int) -> Inputs:
    """The operator's sample; large ones repeat the sample of one period in the shapes asked for."""
    if not repeats(operator, size):
        return operator.sample(dtype, size, seed)
    period = operator.sample(dtype, PERIOD, seed)
    # What is no longer than one element whatever the size is a parameter: a threshold, a time constant.
    return tuple(array if array.size == 1 else np.resize(array, operator.shape(size)) for array in period)


def judge_all(operator: Operator, results: list[Array], inputs: Inputs) -> Verdict:
    """The verdict of :func:`suites.truth.error_model.judge`, of one period and of its repetitions where there are any."""
    if not repeats(operator, max(array.size for array in inputs)):
        return judge(results, operator.truth(*inputs))
    size = max(array.size for array in inputs)
    verdict = judge(
        [result.reshape(-1)[:PERIOD] for result in results],
        operator.truth(*[array.reshape(-1)[:PERIOD] if array.size == size else array for array in inputs]),
    )
    if verdict.status is not Status.PASSED:
        return verdict
    for index, result in enumerate(results):
        bits = result.reshape(-1).view(f"u{result.dtype.itemsize}")
        differ = bits[PERIOD:] != bits[:-PERIOD]
        if differ.any():
            place = PERIOD + int(differ.argmax())
            reason = (
                f"output {index}[{place}] is {result.flat[place]!s}, but {result.flat[place - PERIOD]!s} for the same "
                f"inputs one period of {PERIOD} elements before ({int(differ.sum())} such elements)"
            )
            return Verdict(Status.WRONG_VALUE, reason, verdict.accuracy)
    return verdict
