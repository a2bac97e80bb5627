"""Turns operators into evidence: is each backend's kernel right, under which transformations, and how fast is it?

What a file with operators of one's own needs is here: ``from suites import Operator``. It is imported when it is first
used, so that ``import suites`` costs nothing.

The stages, each a module: :mod:`suites.backends.backend` (who can implement an operator) -> :mod:`suites.declare.operator` (what one
declares), with :mod:`suites.declare.fields`, :mod:`suites.declare.bare` and :mod:`suites.declare.answers` (in which forms) ->
:mod:`suites.ops` (the declarations), or those of a user's file (:mod:`suites.cells.catalogue`) -> :mod:`suites.cells.params` (the
matrix of cells). From there two ways lead on:

- right or wrong: :mod:`suites.checks.register` (which tests make which check; :mod:`suites.inputs.strategies` draws their inputs) ->
  :mod:`suites.judging.cell_verdict` with :mod:`suites.truth.error_model` (the verdict) -> :mod:`suites.judging.evidence` (what one test found) ->
  :mod:`suites.sessions.checks_plugin` (records, grid). :mod:`suites.truth.derived` finds truth where an author declares none.
  :mod:`suites.mutants` proves that the checks work. :mod:`suites.commands.special` shows where backends differ, but are right.
- how fast: :mod:`suites.bench.timing` with :mod:`suites.bench.bandwidth` -> :mod:`suites.sessions.timing_plugin` (records).

:mod:`suites.commands.command_line` is the command line and :mod:`suites.cells.selection` the cells it works on. :mod:`suites.sessions` runs
pytest for it, and :mod:`suites.plugin` gives pytest the parameters. The tests are named after what they establish.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from suites.backends.backend import (
        Backend,
        CudaCallable,
        CudaKernel,
        PallasKernel,
        RawKernel,
        WarpCallable,
        WarpKernel,
    )
    from suites.declare.answers import total_bytes
    from suites.declare.operator import ErrorCase, Failure, Limitation, Operator, Sizes
    from suites.errors import CatalogueError, OperatorError
    from suites.inputs.edges import values, vectors
    from suites.judging.gradients import Gradient, no_sums, sums_of_products
    from suites.truth.derived import derived_truth
    from suites.truth.error_model import Expected, Truth, blocked_terms, bounded, exact, wide

_MODULES = {
    "truth.error_model": ("Expected", "Truth", "blocked_terms", "bounded", "exact", "wide"),
    "declare.answers": ("total_bytes",),
    "backends.backend": (
        "Backend",
        "CudaCallable",
        "CudaKernel",
        "PallasKernel",
        "RawKernel",
        "WarpCallable",
        "WarpKernel",
    ),
    "truth.derived": ("derived_truth",),
    "inputs.edges": ("values", "vectors"),
    "errors": ("CatalogueError", "OperatorError"),
    "judging.gradients": ("Gradient", "no_sums", "sums_of_products"),
    "declare.operator": ("ErrorCase", "Failure", "Limitation", "Operator", "Sizes"),
}
_HOMES = {name: module for module, names in _MODULES.items() for name in names}

__all__ = [
    "Backend",
    "CatalogueError",
    "CudaCallable",
    "CudaKernel",
    "ErrorCase",
    "Expected",
    "Failure",
    "Gradient",
    "Limitation",
    "Operator",
    "OperatorError",
    "PallasKernel",
    "RawKernel",
    "Sizes",
    "Truth",
    "WarpCallable",
    "WarpKernel",
    "blocked_terms",
    "bounded",
    "derived_truth",
    "exact",
    "no_sums",
    "sums_of_products",
    "total_bytes",
    "values",
    "vectors",
    "wide",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = found = getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
