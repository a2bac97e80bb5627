"""Holds the tables of checks that take the derivative of a kernel."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from suites.cells.case import Case
from suites.cells.cell_table import Table
from suites.cells.grid import grid
from suites.cells.marks import as_parameter, as_skip
from suites.cells.tables.batches import BATCHED_SIZE
from suites.declare.differentiation import why_no_gradient, why_no_tangents
from suites.declare.operator import Operator


def gradients(platform: str) -> list[Any]:
    """Returns every kernel with a gradient in every dtype at every size for checks."""
    return _differentiable(grid(platform, _sizes), why_no_gradient)


def small_gradients(platform: str) -> list[Any]:
    """Returns every backend with a gradient in float64 for 5 elements, few enough for differences of results."""
    cases = grid(platform, lambda operator: (5,))
    own = (case for case in cases if case.dtype == "float64")
    return _differentiable(own, why_no_gradient, with_reference=True)


def tangents(platform: str) -> list[Any]:
    """Returns every kernel with a derivative in forward mode, in every dtype at the last size."""
    return _differentiable(grid(platform, lambda operator: _sizes(operator)[-1:]), why_no_tangents)


def _in_first_dtype(size: int) -> Callable[[str], list[Any]]:
    """Returns the table of every kernel with a gradient in its first dtype, at one size."""

    def cells(platform: str) -> list[Any]:
        cases = grid(platform, lambda operator: (size,))
        return _differentiable((case for case in cases if case.in_first_dtype), why_no_gradient)

    return cells


def _sizes(operator: Operator) -> tuple[int, ...]:
    return (operator.gradient and operator.gradient.sizes) or operator.sizes.check


def _differentiable(
    cases: Iterable[Case], why_not: Callable[..., str | None], *, with_reference: bool = False
) -> list[Any]:
    """Returns the cases with a derivative, and one skip with a reason for each kernel that has none."""
    found: list[Any] = []
    skips: dict[Any, Any] = {}
    for case in cases:
        reason = why_not(case.operator, case.backend, case.dtype)
        if reason is None and (with_reference or case.backend.compiled):
            found.append(as_parameter(case))
        elif reason is not None and case.backend in case.operator.kernels:
            skips.setdefault(case.kernel, as_skip(case, reason))
    listed = {cell.values[0].kernel for cell in found}
    return [*found, *(skip for kernel, skip in skips.items() if kernel not in listed)]


GRADIENTS = Table(cells=gradients)
BATCHED_GRADIENTS = Table(cells=_in_first_dtype(BATCHED_SIZE))
SMALL_GRADIENTS = Table(cells=small_gradients)
DRAWN_GRADIENTS = Table(cells=_in_first_dtype(33))
TANGENTS = Table(cells=tangents)
