"""Holds kernels that are broken on purpose, to prove that the checks catch them.

Each module holds the mutants of one backend in ``MUTANTS``. A mutant is a good operator with one kernel replaced by a
broken one, and is tested like any other operator: ``python -m suites mutants`` runs every check on every mutant and
prints which check caught which.
"""

from __future__ import annotations

import functools
import importlib
import pkgutil
from typing import Any

from suites.declare.operator import Operator
from suites.mutants.mutant import Mutant as Mutant


@functools.cache
def mutants() -> dict[str, Mutant]:
    """All mutants by the names of their operators, sorted."""
    found: dict[str, Mutant] = {}
    for module in pkgutil.iter_modules(__path__):
        for mutant in getattr(importlib.import_module(f"{__name__}.{module.name}"), "MUTANTS", ()):
            if mutant.name in found:
                raise ValueError(f"two mutants are named {mutant.name!r}; give each its own name")
            found[mutant.name] = mutant
    return dict(sorted(found.items()))


def __getattr__(name: str) -> Any:
    if name == "OPERATORS":  # --operators suites.mutants looks for this
        operators: list[Operator] = [mutant.operator for mutant in mutants().values()]
        return operators
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
