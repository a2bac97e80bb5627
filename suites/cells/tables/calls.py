"""Holds the tables of checks that call a kernel on inputs: samples, large samples, edge cases, error cases, kernels."""

from __future__ import annotations

from typing import Any

from suites.cells import catalogue
from suites.cells.case import Case, edges_of
from suites.cells.cell_table import Table
from suites.cells.grid import backends, grid
from suites.cells.marks import as_parameter, as_skip


def samples(platform: str, sizes: tuple[int, ...] = ()) -> list[Any]:
    """Returns every dtype at these sizes; without sizes, at every size for checks."""
    return [as_parameter(case) for case in grid(platform, lambda operator: sizes or operator.sizes.check)]


def last_samples(platform: str) -> list[Any]:
    """Returns every kernel in every dtype at the last of the sizes for checks.

    At the other sizes, compiled calls show as much as eager ones.
    """
    cases = grid(platform, lambda operator: operator.sizes.check[-1:])
    return [as_parameter(case) for case in cases if case.backend.compiled]


def large_samples(platform: str) -> list[Any]:
    """Returns every kernel in every dtype at a size that takes several threads, blocks and passes."""
    return [as_parameter(case) for case in grid(platform, lambda operator: (operator.sizes.large,))]


def edge_cases(platform: str) -> list[Any]:
    """Returns every edge case of every dtype."""
    return [
        as_parameter(Case(case.operator, case.backend, case.dtype, 0, platform, edge))
        for case in grid(platform, lambda operator: (0,))
        for edge in edges_of(case.operator, case.dtype)
    ]


def error_cases(platform: str) -> list[Any]:
    """Returns every error case, for the backends that declare a failure for it."""
    return [
        as_parameter(Case(operator, backend, str(case.inputs()[0].dtype), 0, platform, case.name))
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


def kernels_in_every_dtype(platform: str) -> list[Any]:
    """Returns every compiled kernel in each of its dtypes, with 33 elements, for the deep profile."""
    cases = grid(platform, lambda operator: (33,))
    return [as_parameter(case) for case in cases if case.backend.compiled and case.backend in case.operator.kernels]


def sparse_kernels(platform: str) -> list[Any]:
    """Returns the cells of :func:`kernels` that take a sparse matrix in CSR form."""
    return [cell for cell in kernels(platform) if cell.values[0].operator.after_csr is not None]


def repeatable_kernels(platform: str) -> list[Any]:
    """Returns :func:`kernels`; kernels whose bits may vary between calls come as skips."""
    cells = []
    for cell in kernels(platform):
        case = cell.values[0]
        repeats = case.operator.deterministic(case.backend, platform)
        cells.append(cell if repeats else as_skip(case, "adds floats up atomically, in an order that varies"))
    return cells


SAMPLES = Table(cells=samples, at_sizes=samples)
LAST_SAMPLES = Table(cells=last_samples)
LARGE_SAMPLES = Table(cells=large_samples)
EDGE_CASES = Table(cells=edge_cases)
ERROR_CASES = Table(cells=error_cases)
KERNELS = Table(cells=kernels, deep_cells=kernels_in_every_dtype)
TRANSFORMED_KERNELS = Table(cells=kernels, deep_cells=kernels_in_every_dtype, quick_without_twins=True)
SPARSE_KERNELS = Table(cells=sparse_kernels)
REPEATABLE_KERNELS = Table(cells=repeatable_kernels)
