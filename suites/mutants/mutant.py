"""Makes a mutant from a good operator and a broken kernel."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from suites.backends.backend import Backend
from suites.backends.kernel import Kernel
from suites.declare.operator import Operator


@dataclass(frozen=True)
class Mutant:
    """An operator with one broken kernel.

    Attributes:
        operator: The operator, with the broken kernel as its only kernel.
        backend: The backend whose kernel is broken.
        fault: What is wrong with it, in a few words.
    """

    operator: Operator
    backend: Backend
    fault: str

    @property
    def name(self) -> str:
        """Such as ``add~unwritten_tail``."""
        return self.operator.name


def mutant(of: Operator, name: str, backend: Backend, kernel: Kernel, fault: str, **changes: Any) -> Mutant:
    """A mutant of a good operator.

    Args:
        of: The good operator.
        name: The name of the fault, in an id.
        backend: The backend whose kernel is replaced.
        kernel: The broken kernel, as an operator declares it for that backend.
        fault: What is wrong with it, in a few words.
        **changes: Other fields of the operator. By default it has only the first of its ``dtypes`` and no ``errors``: a
            kernel that also lacks the checks of its inputs would have two faults.
    """
    changes = {"dtypes": of.dtypes[:1], "errors": ()} | changes
    operator = replace(of, name=f"{of.name}~{name}", kernels={backend: kernel}, tested=(backend,), **changes)
    return Mutant(operator, backend, fault)
