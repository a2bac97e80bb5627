"""Holds the tables of checks that take the derivative of a kernel."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from suites.cells.case import Case
from suites.cells.cell_table import Table
from suites.cells.grid import grid
from suites.cells.marks import as_parameter, as_skip
from suites.cells.tables.batches import BATCHED_SIZE
from suites.declare.differentiation import why_no_gradient, why_no_tangents
from suites.declare.operator import Operator


def gradients(platform: str) -> list[Any]:
    """Returns every backend with a gradient in every dtype at every size for checks; the reference at the last size."""
    cases = grid(platform, _sizes)
    return _differentiable(case for case in cases if case.backend.compiled or case.size == _sizes(case.operator)[-1])


def last_gradients(platform: str) -> list[Any]:
    """Returns every kernel with a gradient in every dtype at the last size.

    The reference is left out: an eager call compiles each of its operations by itself.
    """
    cases = grid(platform, lambda operator: _sizes(operator)[-1:])
    return _differentiable(case for case in cases if case.backend.compiled)


def batched_gradients(platform: str) -> list[Any]:
    """Returns every kernel with a gradient in its first dtype, at the size of batches; not the reference."""
    cases = grid(platform, lambda operator: (BATCHED_SIZE,))
    return _differentiable(case for case in cases if case.backend.compiled and case.in_first_dtype)


def small_gradients(platform: str) -> list[Any]:
    """Returns every backend with a gradient in float64 for 5 elements, few enough for differences of results."""
    return _differentiable(case for case in grid(platform, lambda operator: (5,)) if case.dtype == "float64")


def drawn_gradients(platform: str) -> list[Any]:
    """Returns every kernel with a gradient in its first dtype with 33 elements; the check chooses further sizes."""
    cases = grid(platform, lambda operator: (33,))
    return _differentiable(case for case in cases if case.backend.compiled and case.in_first_dtype)


def tangents(platform: str) -> list[Any]:
    """Returns every kernel with a derivative in forward mode, in every dtype at the last size."""
    cases = grid(platform, lambda operator: _sizes(operator)[-1:])
    return _with_tangents(case for case in cases if case.backend.compiled)


def batched_tangents(platform: str) -> list[Any]:
    """Returns every kernel with a derivative in forward mode in its first dtype, at the size of batches."""
    cases = grid(platform, lambda operator: (BATCHED_SIZE,))
    return _with_tangents(case for case in cases if case.backend.compiled and case.in_first_dtype)


def _with_tangents(cases: Iterable[Case]) -> list[Any]:
    """Returns the cases with a derivative in forward mode, and one skip for each kernel that has none."""
    found, skipped = [], set()
    for case in cases:
        why = why_no_tangents(case.operator, case.backend, case.dtype)
        if why is None and case.operator.gradient is not None:
            found.append(as_parameter(case, case.operator.gradient.limitations))
        elif case.kernel not in skipped and case.backend in case.operator.kernels and case.in_first_dtype:
            skipped.add(case.kernel)
            found.append(as_skip(case, str(why)))
    return found


def _sizes(operator: Operator) -> tuple[int, ...]:
    return (operator.gradient and operator.gradient.sizes) or operator.sizes.check


def _differentiable(cases: Iterable[Case]) -> list[Any]:
    """Returns the cases with a gradient, and one skip with a reason for each kernel that has none."""
    found, others = [], []
    for case in cases:
        if case.has_gradient and case.operator.gradient is not None:
            found.append(as_parameter(case, case.operator.gradient.limitations))
        else:
            others.append(case)
    listed = {cell.values[0].kernel for cell in found}
    for case in others:
        if case.kernel not in listed and case.backend in case.operator.kernels:
            listed.add(case.kernel)
            found.append(as_skip(case, str(why_no_gradient(case.operator, case.backend, case.dtype))))
    return found


GRADIENTS = Table(cells=gradients)
LAST_GRADIENTS = Table(cells=last_gradients)
BATCHED_GRADIENTS = Table(cells=batched_gradients)
SMALL_GRADIENTS = Table(cells=small_gradients)
DRAWN_GRADIENTS = Table(cells=drawn_gradients)
TANGENTS = Table(cells=tangents)
BATCHED_TANGENTS = Table(cells=batched_tangents)
