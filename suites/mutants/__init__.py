"""Holds kernels that are broken on purpose, to prove that the checks catch them, and right ones that none may refuse.

A module for each kernel language has its broken kernels in ``MUTANTS``, each with the mistake in words and the checks
of which one must catch it. ``nox -s mutants`` runs these checks, on a CPU or a GPU. The right kernels are in
:mod:`suites.mutants.right_kernels`, :mod:`suites.mutants.right_cuda_kernels` and :mod:`suites.mutants.ways`.
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
    by_name: dict[str, Mutant] = {}
    for module in pkgutil.iter_modules(__path__):
        for mutant in getattr(importlib.import_module(f"{__name__}.{module.name}"), "MUTANTS", ()):
            if mutant.name in by_name:
                raise ValueError(f"two mutants are named {mutant.name!r}; give each its own name")
            by_name[mutant.name] = mutant
    return dict(sorted(by_name.items()))


def __getattr__(name: str) -> Any:
    if name == "OPERATORS":  # --operators suites.mutants looks for this
        operators: list[Operator] = [mutant.operator for mutant in mutants().values()]
        return operators
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
