"""Writes the reason of a failure: the exception, and the inputs that reproduce it."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import numpy as np

from reports import Status
from suites.checks.judging.blame import place_outside_of_kernels
from suites.declare.input_names import input_names
from suites.declare.operator import Operator
from suites.numerics.arrays import Inputs
from suites.numerics.verdict import Verdict

Array = np.ndarray[Any, Any]

SHOWN_ELEMENTS = 8
"""Inputs of at most so many elements are shown whole."""


def described(error: BaseException) -> str:
    """Returns the type, the message and the notes of an exception; notes name the backend or generator at fault.

    It also says where the exception came from if the kernel is not to blame.
    """
    notes = [str(note) for note in getattr(error, "__notes__", ()) if str(note).startswith("(raised ")]  # not JAX's
    place = place_outside_of_kernels(error)
    notes += [] if place is None else [f"(not from the kernel, but from {place})"]
    return " ".join([f"{type(error).__name__}: {str(error).strip() or 'without a message'}", *notes])


def with_inputs(verdict: Verdict, operator: Operator, inputs: Inputs) -> Verdict:
    """Adds the inputs to the reason of a verdict that is not PASSED.

    Short inputs, and those that are equal in nearly all places, are shown as code that makes them. Others are shown by
    shape, with the element at the place of the worst result if there is one.
    """
    if verdict.status is Status.PASSED:
        return verdict
    place = tuple(verdict.accuracy.worst_index) if verdict.accuracy and verdict.accuracy.worst_index else None
    named = zip(input_names(operator.reference, len(inputs)), inputs, strict=True)
    shown = [_shown(*one, place) for one in named]
    separator = "; " if all(" = " in each for each in shown) else ", "
    return replace(verdict, reason=f"{verdict.reason}; inputs: {separator.join(shown)}")


def _shown(name: str, array: Array, place: tuple[int, ...] | None) -> str:
    dtype = f"np.{array.dtype.name}" if array.dtype.name != "bfloat16" else "'bfloat16'"
    if array.size <= SHOWN_ELEMENTS:
        return f"{name} = np.array({_text(array.tolist())}, {dtype})"
    flat = array.reshape(-1)
    rest = flat[int(np.argmax([np.sum(_equal(flat, value)) for value in flat[:SHOWN_ELEMENTS]]))]
    others = np.flatnonzero(~_equal(flat, rest))
    if others.size <= SHOWN_ELEMENTS // 2:
        size = array.size if array.ndim == 1 else array.shape
        changes = "".join(f"; {name}.flat[{i}] = {_text(flat[i].item())}" for i in others)
        return f"{name} = np.full({size}, {_text(rest.item())}, {dtype}){changes}"
    shape = f"{name}: {array.dtype}{list(array.shape)}"
    if place is None or len(place) != array.ndim or any(i >= n for i, n in zip(place, array.shape, strict=True)):
        return shape
    return f"{shape}, {name}{list(place)} = {array[place]}"


def _equal(flat: Array, value: Any) -> Array:
    """Where elements are a value, with the same sign of zero, or NaN if it is NaN."""
    equal = (flat == value) | ((flat != flat) & (value != value))
    return np.asarray(equal & (np.signbit(flat) == np.signbit(value)) if flat.dtype.kind == "f" else equal)


def _text(value: Any) -> str:
    """A number, or a list of numbers, as Python code."""
    return re.sub(r"\b(nan|inf)\b", r"np.\1", repr(value))
