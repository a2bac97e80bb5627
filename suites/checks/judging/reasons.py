"""Writes the reason of a failure: the exception, and the inputs that reproduce it."""

from __future__ import annotations

import inspect
from dataclasses import replace
from typing import Any

import numpy as np

from reports import Status
from suites.declare.operator import Operator
from suites.numerics.arrays import Inputs
from suites.numerics.verdict import Verdict

Array = np.ndarray[Any, Any]

SHOWN_ELEMENTS = 8
"""Inputs of at most so many elements are shown whole."""


def described(error: BaseException) -> str:
    """Returns the type, the message and the notes of an exception; notes name the backend or generator at fault."""
    notes = [str(note) for note in getattr(error, "__notes__", ()) if str(note).startswith("(raised ")]  # not JAX's
    return " ".join([f"{type(error).__name__}: {str(error).strip() or 'without a message'}", *notes])


def with_inputs(verdict: Verdict, operator: Operator, inputs: Inputs) -> Verdict:
    """Adds the inputs to the reason of a verdict that is not PASSED.

    Short inputs are shown whole. Others are shown by shape, with the element at the place of the worst result if there
    is one.
    """
    if verdict.status is Status.PASSED:
        return verdict
    place = tuple(verdict.accuracy.worst_index) if verdict.accuracy and verdict.accuracy.worst_index else None
    # An operator's reference takes any number of inputs; the function that its author gave has names for them.
    names = [*inspect.signature(getattr(operator.reference, "given", operator.reference)).parameters]
    named = zip(names if len(names) == len(inputs) else map(str, range(len(inputs))), inputs, strict=True)
    return replace(verdict, reason=f"{verdict.reason}; inputs: {', '.join(_shown(*one, place) for one in named)}")


def _shown(name: str, array: Array, place: tuple[int, ...] | None) -> str:
    if array.size <= SHOWN_ELEMENTS:
        return f"{name} = {array.dtype} {array.tolist()}"
    shape = f"{name}: {array.dtype}{list(array.shape)}"
    if place is None or len(place) != array.ndim or any(i >= n for i, n in zip(place, array.shape, strict=True)):
        return shape
    return f"{shape}, {name}{list(place)} = {array[place]}"
