"""Holds the tables of checks that run a kernel under ``jax.vmap``."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from suites.cells.case import Case
from suites.cells.cell_table import Table
from suites.cells.grid import grid
from suites.cells.marks import as_parameter, as_skip
from suites.cells.tables.calls import kernels

LAYOUTS = ("first_axis", "last_axis", "nested", "only_first_input", "only_last_input")
"""How the operands of a batch are laid out, see :mod:`suites.checks.test_vmap`."""

QUICK_LAYOUTS = ("nested", "only_last_input")
"""The two layouts that differ most."""

BATCHED_SIZE = 47
"""Elements of one batch element: no power of two."""

DRAWN_SIZE = 5


def batches(platform: str) -> list[Any]:
    """Returns every layout of every kernel in its first dtype: batching sees only shapes.

    The reference is left out, because JAX batches it by itself.
    """
    cells = []
    for case in grid(platform, lambda operator: (BATCHED_SIZE,)):
        if case.backend.compiled and case.in_first_dtype:
            variants = [replace(case, variant=layout) for layout in LAYOUTS]
            cells += [as_parameter(each) for each in variants] if case.operator.batchable else [_unbatchable(case)]
    return cells


def drawn_batches(platform: str) -> list[Any]:
    """Returns every kernel once, with :data:`DRAWN_SIZE` elements; kernels that cannot be batched come as skips."""
    cases = [replace(cell.values[0], size=DRAWN_SIZE) for cell in kernels(platform)]
    return [as_parameter(case) if case.operator.batchable else _unbatchable(case) for case in cases]


def _unbatchable(case: Case) -> Any:
    return as_skip(case, f"jax.vmap over {case.operator.name} makes no sense")


BATCHES = Table(cells=batches, full_only=frozenset(LAYOUTS) - frozenset(QUICK_LAYOUTS), quick_without_twins=True)
DRAWN_BATCHES = Table(cells=drawn_batches, quick_without_twins=True)
