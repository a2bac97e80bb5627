"""Finds the Python functions that a kernel consists of: the kernel, its helpers, and the functions that launch it."""

from __future__ import annotations

import ast
import functools
import inspect
import sys
from collections.abc import Iterator
from dataclasses import dataclass, fields, is_dataclass
from types import CodeType, FunctionType, ModuleType
from typing import Any

from suites.backends.kernel import Kernel


@dataclass(frozen=True)
class Place:
    """Where a function is defined.

    Attributes:
        module: Name of its module.
        line: Its first line, decorators included.
    """

    module: str
    line: int


def kernel_functions(kernel: Kernel, modules: frozenset[str]) -> set[Place]:
    """Returns the functions that a kernel refers to, directly or through others, in some modules.

    Args:
        kernel: The kernel of one backend, as an operator holds it.
        modules: Names of the modules whose functions count. Functions elsewhere are not followed.
    """
    found: set[Place] = set()
    seen: set[int] = set()
    pending: list[Any] = [kernel]
    while pending:
        value = pending.pop()
        if id(value) in seen:
            continue
        seen.add(id(value))
        function = _function(value)
        if function is None:
            pending += _parts(value)
            continue
        if function.__module__ not in modules:
            continue
        replacements = _replacements(function)
        place = Place(function.__module__, function.__code__.co_firstlineno)
        if replacements:  # the compiler takes them, and never the function itself
            pending += replacements
        elif place not in found:
            found.add(place)
            pending += _referred(function)
    return found


def _function(value: Any) -> FunctionType | None:
    """Returns the Python function of a dispatcher, a Warp kernel or function, or a cached function."""
    if isinstance(value, FunctionType):
        wrapped = inspect.unwrap(value)
        return wrapped if isinstance(wrapped, FunctionType) else value
    if isinstance(value, functools.partial):
        return None
    for name in ("py_func", "__wrapped__", "func"):
        inner = getattr(value, name, None)
        if isinstance(inner, FunctionType):
            return inner
    adjoint = getattr(value, "adj", None)
    inner = getattr(adjoint, "func", None)
    return inner if isinstance(inner, FunctionType) else None


def _parts(value: Any) -> list[Any]:
    if isinstance(value, functools.partial):
        return [value.func, *value.args, *value.keywords.values()]
    if is_dataclass(value) and not isinstance(value, type):
        return [getattr(value, field.name, None) for field in fields(value)]
    if isinstance(value, list | tuple | set | frozenset):
        return list(value)
    if isinstance(value, dict):
        return list(value.values())
    return []


def _referred(function: FunctionType) -> Iterator[Any]:
    """Yields the values of the global names and closures of a function."""
    for name in _names(function.__code__):
        value = function.__globals__.get(name)
        if value is not None and not isinstance(value, ModuleType | type):
            yield value
    for cell in function.__closure__ or ():
        try:
            yield cell.cell_contents
        except ValueError:  # the name was never bound
            continue


def _replacements(function: FunctionType) -> list[Any]:
    """Returns the functions that implement a function for Numba, in its module."""
    module = vars(sys.modules[function.__module__])
    return [module[name] for name in _overloads(function.__module__).get(function.__name__, ()) if name in module]


def _names(code: CodeType) -> set[str]:
    inner = (constant for constant in code.co_consts if isinstance(constant, CodeType))
    return {*code.co_names}.union(*map(_names, inner))


@functools.cache
def _overloads(module: str) -> dict[str, tuple[str, ...]]:
    """Returns the names of the functions of a module that implement another one for Numba, by the name of that one."""
    found: dict[str, list[str]] = {}
    for node in ast.walk(ast.parse(source_of(module))):
        for decorator in getattr(node, "decorator_list", []):
            if isinstance(decorator, ast.Call) and ast.unparse(decorator.func).endswith("overload") and decorator.args:
                found.setdefault(ast.unparse(decorator.args[0]), []).append(node.name)  # type: ignore[attr-defined]
    return {name: tuple(others) for name, others in found.items()}


def source_of(module: str) -> str:
    """Returns the text of an imported module."""
    return inspect.getsource(sys.modules[module])
