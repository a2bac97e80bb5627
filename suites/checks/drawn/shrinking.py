"""Shrinks inputs on which a kernel fails, so that a user can paste the few values that matter."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import numpy as np

from reports import Status
from suites.checks.drawn.drawn_inputs import is_parameter
from suites.declare.operator import Operator
from suites.numerics.arrays import Inputs
from suites.numerics.verdict import ResultVerdict

SECONDS = 3.0
"""The time that shrinking may take; afterwards the best inputs so far are shown."""


def shrunk(
    operator: Operator, inputs: Inputs, verdict: ResultVerdict, judge: Callable[[Inputs], ResultVerdict]
) -> tuple[Inputs, ResultVerdict]:
    """Returns simpler inputs on which the kernel fails in the same way, with their verdict.

    Vectors are cut to the worst element, if the kernel fails on it alone. Then as many elements as possible become 1
    or 0.

    Args:
        operator: The operator.
        inputs: The inputs on which the kernel fails.
        verdict: The verdict on them.
        judge: Judges the kernel on other inputs.
    """
    end = time.monotonic() + SECONDS

    def still_fails(candidate: Inputs) -> ResultVerdict | None:
        if time.monotonic() > end:
            return None
        try:
            result = judge(candidate)
        except Exception:  # inputs that the operator cannot take
            return None
        return result if result.status is verdict.status else None

    for candidate in _cuts(inputs, verdict):
        failure = still_fails(candidate)
        if failure is not None:
            inputs, verdict = candidate, failure
            break
    for index in range(len(inputs)):
        inputs, verdict = _simplified(operator, inputs, verdict, index, still_fails)
    return inputs, verdict


def _cuts(inputs: Inputs, verdict: ResultVerdict) -> Iterator[Inputs]:
    """Yields shorter vectors: the worst element alone, and the first ones; none if the inputs differ in length."""
    longest = [array for array in inputs if not is_parameter(array, inputs)]
    if not longest or any(array.ndim != 1 or array.size != longest[0].size for array in longest):
        return
    size = longest[0].size
    worst = verdict.accuracy.worst_index if verdict.accuracy else None
    slices = [slice(worst[0], worst[0] + 1)] if worst and len(worst) == 1 and worst[0] < size else []
    for part in [*slices, *(slice(0, length) for length in (1, 2, 4, 8) if length < size)]:
        yield tuple(array if is_parameter(array, inputs) else array[part].copy() for array in inputs)


def _simplified(
    operator: Operator,
    inputs: Inputs,
    verdict: ResultVerdict,
    index: int,
    still_fails: Callable[[Inputs], ResultVerdict | None],
) -> tuple[Inputs, ResultVerdict]:
    """Replaces parts of one input by 1 or 0: all of it, then halves, quarters and so on."""
    array = inputs[index]
    domain = operator.domain_of(index)
    if domain.fixed or not array.size:
        return inputs, verdict
    for simple in (1, 0):
        width = array.size
        while width:
            for start in range(0, array.size, width):
                changed = inputs[index].copy()
                changed.reshape(-1)[start : start + width] = np.asarray(simple).astype(array.dtype)
                changed = domain.fitted(changed, inputs[index], inputs)
                candidate = (*inputs[:index], changed, *inputs[index + 1 :])
                failure = None if changed.tobytes() == inputs[index].tobytes() else still_fails(candidate)
                if failure is not None:
                    inputs, verdict = candidate, failure
            width //= 2
        if (inputs[index] == np.asarray(simple).astype(array.dtype)).mean() > 0.5:
            break
    return inputs, verdict


def cure(operator: Operator, names: list[str], inputs: Inputs, verdict: ResultVerdict) -> str:
    """Returns advice for an author whose kernel need not take such inputs; empty if the inputs are ordinary.

    Args:
        operator: The operator.
        names: The names of its inputs.
        inputs: The inputs on which the kernel fails.
        verdict: The verdict on them.
    """
    if verdict.status is Status.RUNTIME_ERROR and "ZeroDivisionError" in (verdict.reason or ""):
        zeros = [name for name, array in zip(names, inputs, strict=True) if (array == 0).any()]
        which = repr(zeros[0]) if zeros else "..."
        return (
            "the reference divides by zero as IEEE 754 says: compile the kernel with numba.njit(error_model='numpy'), "
            f"or declare domains={{{which}: suites.Domain(zero=False)}} if it need not"
        )
    if any(not array.size for array in inputs):
        return "if inputs are never empty, declare edges=lambda dtype: {}"
    if not is_finite(inputs):
        kinds = enumerate(array.dtype.kind for array in inputs)
        floats = [names[index] for index, kind in kinds if kind in "fcV" and not operator.domain_of(index).finite]
        domains = ", ".join(f"{name!r}: suites.Domain(finite=True)" for name in floats)
        return f"if the kernel need not take NaN or infinities, declare domains={{{domains}}}"
    for name, array in zip(names, inputs, strict=True):
        if array.dtype.kind == "i" and (array == (least := np.iinfo(array.dtype).min)).any():
            domain = f"domains={{{name!r}: suites.Domain(least={least + 1})}}"
            return f"if the kernel need not take the least integer, declare {domain}"
    if verdict.status is Status.RUNTIME_ERROR:
        return "if the kernel need not take such values, declare domains={...}, see suites.Domain"
    return ""


def is_finite(inputs: Inputs) -> bool:
    """Whether no element is NaN or infinite."""
    return all(np.isfinite(array).all() for array in inputs)
