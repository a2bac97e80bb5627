"""Turns operators into evidence: is each backend's kernel right, under which transformations, and how fast is it?

What a file with operators of one's own needs is here: ``from suites import Operator``. It is imported when it is first
used, so that ``import suites`` costs nothing.

The stages, each a module: :mod:`suites.backends` (who can implement an operator) -> :mod:`suites.operator` (what one
declares), with :mod:`suites.declaration`, :mod:`suites.bare` and :mod:`suites.answers` (in which forms) ->
:mod:`suites.ops` (the declarations), or those of a user's file (:mod:`suites.catalogue`) -> :mod:`suites.params` (the
matrix of cells). From there two ways lead on:

- right or wrong: :mod:`suites.checks` (which tests make which check; :mod:`suites.strategies` draws their inputs) ->
  :mod:`suites.check` with :mod:`suites.accuracy` (the verdict) -> :mod:`suites.evidence` (what one test found) ->
  :mod:`suites.sessions.checks_plugin` (records, grid). :mod:`suites.derived` finds truth where an author declares none.
  :mod:`suites.mutants` proves that the checks work. :mod:`suites.special` shows where backends differ, but are right.
- how fast: :mod:`suites.timing` with :mod:`suites.bandwidth` -> :mod:`suites.sessions.timing_plugin` (records).

:mod:`suites.cli` is the command line and :mod:`suites.selection` the cells it works on. :mod:`suites.sessions` runs
pytest for it, and :mod:`suites.plugin` gives pytest the parameters. The tests are named after what they establish.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from suites.accuracy import Expected, Truth, blocked_terms, bounded, exact, wide
    from suites.answers import total_bytes
    from suites.backends import (
        Backend,
        CudaCallable,
        CudaKernel,
        PallasKernel,
        RawKernel,
        WarpCallable,
        WarpKernel,
    )
    from suites.derived import derived_truth
    from suites.edges import values, vectors
    from suites.errors import CatalogueError, OperatorError
    from suites.gradients import Gradient, no_sums, sums_of_products
    from suites.operator import ErrorCase, Failure, Limitation, Operator, Sizes

_MODULES = {
    "accuracy": ("Expected", "Truth", "blocked_terms", "bounded", "exact", "wide"),
    "answers": ("total_bytes",),
    "backends": (
        "Backend",
        "CudaCallable",
        "CudaKernel",
        "PallasKernel",
        "RawKernel",
        "WarpCallable",
        "WarpKernel",
    ),
    "derived": ("derived_truth",),
    "edges": ("values", "vectors"),
    "errors": ("CatalogueError", "OperatorError"),
    "gradients": ("Gradient", "no_sums", "sums_of_products"),
    "operator": ("ErrorCase", "Failure", "Limitation", "Operator", "Sizes"),
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
