"""Declares a broken kernel: an operator with one mistake, and the checks of which one must catch it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from suites.backends import Backend
from suites.declare.operator import Operator


@dataclass(frozen=True)
class Mutant:
    """An operator with one broken kernel.

    Attributes:
        operator: The operator, with the broken kernel as its only kernel.
        backend: The backend whose kernel is broken.
        fault: The mistake, in a few words.
        caught_by: The names of the checks of which one must catch it.
    """

    operator: Operator
    backend: Backend
    fault: str
    caught_by: tuple[str, ...]

    @property
    def name(self) -> str:
        """Such as ``sum~kept_total``, or ``at_4096`` for an operator that no good kernel has."""
        return self.operator.name


def table(backend: Backend) -> tuple[list[Mutant], Callable[..., Any]]:
    """Returns the list of a module's mutants, and the decorator that adds a kernel to it.

    The decorator takes a good operator, or only a reference; the check that must catch the kernel, or several; and the
    mistake in words. ``make`` turns the decorated object into a kernel of an operator. Further
    keywords are fields of the operator. By default it has one dtype, no derivative and no inputs to refuse; and edge
    cases only if the check ``edges`` must catch it.
    """
    mutants: list[Mutant] = []

    def broken(
        of: Operator | Callable[..., Any], caught_by: str | Sequence[str], fault: str, *, make: Any = lambda it: it,
        backend: Backend = backend, name: str = "", **fields: Any,
    ) -> Any:  # fmt: skip
        def add(kernel: Any) -> Any:
            checks = (caught_by,) if isinstance(caught_by, str) else tuple(caught_by)
            settings: dict[str, Any] = {"gradient": None} | ({} if "edges" in checks else {"edges": _no_edges}) | fields
            own = name or getattr(kernel, "func", getattr(kernel, "py_func", kernel)).__name__
            kernels = {backend: make(kernel)}
            if isinstance(of, Operator):
                settings = {"dtypes": of.dtypes[:1], "errors": ()} | settings
                operator = replace(of, name=f"{of.name}~{own}", kernels=kernels, tested=(backend,), **settings)
            else:
                settings = {"dtypes": ("float32",), "tested": (backend,)} | settings
                operator = Operator(name=own, reference=of, kernels=kernels, **settings)
            mutants.append(Mutant(operator, backend, fault, checks))
            return kernel

        return add

    return mutants, broken


def _no_edges(dtype: str) -> dict[str, Any]:
    """Saves checks of inputs that show nothing."""
    return {}
