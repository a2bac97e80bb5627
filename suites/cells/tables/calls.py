"""Holds the tables of checks that call a kernel on inputs: samples, large samples, edge cases, error cases, kernels."""

from __future__ import annotations

from typing import Any

from suites.backends.kernel import Kernel
from suites.cells import catalogue
from suites.cells.case import Case, edges_of
from suites.cells.cell_table import Table
from suites.cells.grid import backends, grid
from suites.cells.marks import as_parameter


def samples(platform: str, sizes: tuple[int, ...] = ()) -> list[Any]:
    """Returns every dtype at these sizes; without sizes, at every size for checks. The reference is there at one."""
    cases = grid(platform, lambda operator: sizes or operator.sizes.check)
    return [
        as_parameter(case)
        for case in cases
        if case.backend.compiled or case.size == (sizes or case.operator.sizes.check)[-1]
    ]


def large_samples(platform: str) -> list[Any]:
    """Returns every kernel in every dtype at a size that takes several threads, blocks and passes."""
    cases = grid(platform, lambda operator: (operator.sizes.large,))
    return [as_parameter(case) for case in cases if case.backend.compiled]


def edge_cases(platform: str) -> list[Any]:
    """Returns every edge case of every dtype, for kernels."""
    return [
        as_parameter(Case(case.operator, case.backend, case.dtype, 0, platform, edge))
        for case in grid(platform, lambda operator: (0,))
        if case.backend.compiled
        for edge in edges_of(case.operator, case.dtype)
    ]


def error_cases(platform: str) -> list[Any]:
    """Returns every error case, for the backends that declare a failure for it."""
    return [
        as_parameter(Case(operator, backend, str(case.arrays()[0].dtype), 0, platform, case.name))
        for operator in catalogue.operators().values()
        for backend in backends(operator, platform)
        for case in operator.errors
        if backend in case.failures
    ]


def kernels(platform: str) -> list[Any]:
    """Returns every compiled kernel once, in its first dtype, with 33 elements."""
    return [
        as_parameter(Case(operator, backend, operator.dtypes[0], 33, platform))
        for operator in catalogue.operators().values()
        for backend in backends(operator, platform)
        if backend.compiled and backend in operator.kernels
    ]


def checkable_kernels(platform: str) -> list[Any]:
    """Returns the cells of :func:`kernels` whose language can check indices while a kernel runs."""
    return [cell for cell in kernels(platform) if _can_check_bounds(cell.values[0])]


def failing_kernels(platform: str) -> list[Any]:
    """Returns the cells of :func:`kernels` whose operator has calls that fail: its error cases."""

    def fails(case: Case) -> bool:
        return any(case.backend in error.failures for error in case.operator.errors)

    return [cell for cell in kernels(platform) if fails(cell.values[0])]


def _can_check_bounds(case: Case) -> bool:
    kernel = case.operator.kernels[case.backend]
    return isinstance(kernel, Kernel) and type(kernel).with_bounds_checks is not Kernel.with_bounds_checks


SAMPLES = Table(cells=samples, at_sizes=samples)
LARGE_SAMPLES = Table(cells=large_samples)
EDGE_CASES = Table(cells=edge_cases)
ERROR_CASES = Table(cells=error_cases)
KERNELS = Table(cells=kernels)
TRANSFORMED_KERNELS = Table(cells=kernels, quick_without_twins=True)
CHECKABLE_KERNELS = Table(cells=checkable_kernels, quick_without_twins=True)
FAILING_KERNELS = Table(cells=failing_kernels, quick_without_twins=True)
