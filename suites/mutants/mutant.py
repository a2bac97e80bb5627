"""Defines :class:`Mutant`: a good operator in which one kernel is broken."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from suites.backends.backend import Backend, Kernel
from suites.declare.operator import Operator


@dataclass(frozen=True)
class Mutant:
    """An operator with one broken kernel.

    Attributes:
        operator: The operator; only its broken kernel is tested.
        backend: Whose kernel is broken.
        fault: What is wrong with the kernel, in a few words.
    """

    operator: Operator
    backend: Backend
    fault: str

    @property
    def name(self) -> str:
        """Such as ``add~unwritten_tail``."""
        return self.operator.name


def mutant(of: Operator, name: str, backend: Backend, kernel: Kernel, fault: str, **changes: Any) -> Mutant:
    """Makes a mutant of a good operator.

    Args:
        of: The good operator.
        name: Of the fault, in an id.
        backend: The backend whose kernel is replaced.
        kernel: The broken kernel, as an operator declares it for that backend.
        fault: What is wrong with it, in a few words.
        **changes: Other fields of the operator. By default it has only its first dtype, and no error cases: a kernel
            that did not check its inputs either would have two faults.
    """
    changes = {"dtypes": of.dtypes[:1], "errors": ()} | changes
    operator = replace(of, name=f"{of.name}~{name}", kernels={backend: kernel}, tested=(backend,), **changes)
    return Mutant(operator, backend, fault)
