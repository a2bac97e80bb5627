"""Finds functions that a file of operators has replaced, such as the judge or the ``jnp.sum`` of the reference.

Python code that shares a process with the harness can change anything in it. This finds what happens by mistake, or
without effort: a module's function or a class's method that is another object than before, or has other code.
"""

from __future__ import annotations

import importlib
import pkgutil
import sys
import types
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from suites.cells.catalogue import CatalogueError

_OWN = ("suites.", "reports.", "bridge.")
_LIBRARIES = ("time", "numpy", "jax", "jax.numpy", "jax.lax", "jax.scipy", "numpy.testing")
_JUDGING = ("suites.numerics", "suites.declare", "suites.cells", "suites.checks.judging", "suites.checks.drawn")
"""Packages that are imported before the user's file, so that nothing of them can be replaced unseen."""

_EXEMPT = ("suites.ops.", "suites.mutants.", "suites.unit.", "suites.tutorials.", "suites.checks.test_")


@dataclass(frozen=True, slots=True)
class _Held:
    """A function or class as it was: where it is held, and the code of a function."""

    where: str
    namespace: Mapping[str, object]
    attribute: str
    value: object
    code: object


_remembered: list[_Held] = []


def remember() -> None:
    """Remembers the functions of the harness as they are now, if nothing was remembered in this process yet."""
    if not _remembered:
        for package in _JUDGING:
            _import_all(importlib.import_module(package))
        _remembered.extend(_functions())


def replaced() -> str | None:
    """Returns the name of a function that is not what it was when it was remembered, or None."""
    for held in _remembered:
        value = held.namespace.get(held.attribute)
        if value is not held.value or getattr(value, "__code__", None) is not held.code:
            return f"{held.where}.{held.attribute}"
    return None


def require_untouched() -> None:
    """Requires that no function was replaced since :func:`remember`.

    Raises:
        CatalogueError: One was; the message names it.
    """
    name = replaced()
    if name is not None:
        raise CatalogueError(
            f"{name} was replaced while the operators were imported, so no verdict could be trusted. A file of "
            "operators must change nothing outside of itself."
        )


def _import_all(package: types.ModuleType) -> None:
    for module in pkgutil.iter_modules(package.__path__):
        name = f"{package.__name__}.{module.name}"
        if not module.ispkg and not name.startswith(_EXEMPT):
            importlib.import_module(name)


def _functions() -> Iterator[_Held]:
    for name, module in list(sys.modules.items()):
        is_own = name.startswith(_OWN) and not name.startswith(_EXEMPT)
        if module is None or not (is_own or name in _LIBRARIES):
            continue
        for attribute, value in list(vars(module).items()):
            if callable(value) and not isinstance(value, types.ModuleType):
                yield _Held(name, vars(module), attribute, value, getattr(value, "__code__", None))
            if isinstance(value, type) and value.__module__ == name and is_own:
                yield from _methods(f"{name}.{attribute}", value)


def _methods(where: str, owner: type) -> Iterator[_Held]:
    for attribute, value in list(vars(owner).items()):
        if isinstance(value, types.FunctionType | property | classmethod | staticmethod):
            yield _Held(where, vars(owner), attribute, value, getattr(value, "__code__", None))
