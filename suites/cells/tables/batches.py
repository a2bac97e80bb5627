"""Holds the tables of checks that run a kernel under ``jax.vmap``."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from suites.cells.case import Case
from suites.cells.cell_table import Table
from suites.cells.grid import grid
from suites.cells.marks import as_parameter, as_skip

LAYOUTS = ("first_axis", "last_axis", "nested", "only_first_input", "only_last_input")
"""How the operands of a batch are laid out, see :mod:`suites.checks.test_batches`."""

QUICK_LAYOUTS = ("nested", "only_last_input")
"""The two layouts that differ most."""

BATCHED_SIZE = 47
"""Elements of one batch element: no power of two."""


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


def _unbatchable(case: Case) -> Any:
    return as_skip(case, f"jax.vmap over {case.operator.name} makes no sense")


BATCHES = Table(cells=batches, full_only=frozenset(LAYOUTS) - frozenset(QUICK_LAYOUTS), quick_without_twins=True)
