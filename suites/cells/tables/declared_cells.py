"""Holds the tables of checks of what a kernel declares: updates in place, and dimensions that may be split."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from suites.backends.custom_kernel import CustomKernel
from suites.cells.case import Case
from suites.cells.cell_table import Table
from suites.cells.grid import grid
from suites.cells.marks import as_parameter, why_skipped

SPLIT_SIZE = 48
"""Elements of a dimension that is split: 8 devices get 6 each, which is no multiple of 4."""

IN_PLACE_SIZE = 33

SPLITS = ("auto", "explicit")
"""The kinds of mesh axes: XLA's partitioner splits the program, or the types of arrays say how they are split."""


def in_place(platform: str) -> list[Any]:
    """Returns every kernel that updates inputs in place, in its first dtype."""
    cases = grid(platform, lambda operator: (IN_PLACE_SIZE,))
    return [as_parameter(case) for case in cases if _is_compiled_first(case) and _aliases(case)]


def split(platform: str) -> list[Any]:
    """Returns every kernel of an operator that declares dimensions with ``def_partitioning``, in its first dtype."""
    cases = [
        case
        for case in grid(platform, lambda operator: (SPLIT_SIZE,))
        if _is_compiled_first(case) and _dimensions(case) is not None
    ]
    return [as_parameter(replace(case, variant=kind)) for case in cases for kind in SPLITS]


def _is_compiled_first(case: Case) -> bool:
    return case.backend.compiled and case.in_first_dtype and case.backend in case.operator.kernels


def _aliases(case: Case) -> bool:
    if why_skipped(case):
        return False
    inputs = case.inputs()
    try:
        return bool(case.operator.kernel(case.backend).aliases(inputs, case.operator.outputs(*inputs)))
    except Exception:  # from the author's launch options; every check that calls the kernel fails by the same exception
        return False


def _dimensions(case: Case) -> Any:
    kernel = case.operator.kernel(case.backend)
    return kernel.dimensions if isinstance(kernel, CustomKernel) else None


IN_PLACE = Table(cells=in_place)
SPLIT = Table(cells=split)
