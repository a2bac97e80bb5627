"""Finds atomic operations in the source of a kernel, so that its author need not declare them.

Atomic operations add floats up in an order that varies from call to call on a GPU, and so do the last bits of results.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Iterator
from types import CodeType, FunctionType, ModuleType
from typing import Any

_LIBRARIES = {"bridge", "jax", "numba", "numpy", "warp", *sys.stdlib_module_names}
"""Their functions are no part of a user's kernel."""

_INNER = ("py_func", "func", "__wrapped__")
"""Where the decorators of Numba, of Warp and of functools keep the function."""

_ELEMENT_UPDATE = re.compile(r"\]\s*[+-]=")


def has_atomics(kernel: Any, *, warp: bool = False) -> bool:
    """Whether a kernel, or a function that it refers to, has an atomic operation.

    Args:
        kernel: A function, plain or decorated by Numba-CUDA or Warp.
        warp: Whether it is in Warp, which makes ``out[i] += x`` an atomic operation.
    """
    return any(
        _names_atomics(function) or (warp and _updates_elements(function)) for function in _reached(kernel, set())
    )


def _names_atomics(function: FunctionType) -> bool:
    return any(name.startswith("atomic") for code in _codes(function.__code__) for name in code.co_names)


def _updates_elements(function: FunctionType) -> bool:
    try:
        return bool(_ELEMENT_UPDATE.search(inspect.getsource(function)))
    except (OSError, TypeError):  # its file is gone
        return True


def _reached(reference: Any, seen: set[int]) -> Iterator[FunctionType]:
    """Yields a function and every function that it refers to by a global name, a free variable or an attribute."""
    function = _function_of(reference)
    if function is None or id(function) in seen or function.__module__.partition(".")[0] in _LIBRARIES:
        return
    seen.add(id(function))
    yield function
    cells = [cell.cell_contents for cell in function.__closure__ or () if _is_filled(cell)]
    names = {name for code in _codes(function.__code__) for name in code.co_names}
    values = [*cells, *(function.__globals__[name] for name in names if name in function.__globals__)]
    modules = [value for value in values if isinstance(value, ModuleType)]
    values += [vars(module)[name] for module in modules for name in names if name in vars(module)]
    for value in values:
        yield from _reached(value, seen)


def _function_of(value: Any) -> FunctionType | None:
    """The Python function of a decorated one; None if it is something else."""
    if isinstance(value, FunctionType):
        return value
    if isinstance(value, ModuleType | type):
        return None
    inner = next((function for name in _INNER if (function := getattr(value, name, None)) is not None), None)
    return inner if isinstance(inner, FunctionType) else None


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes(constant)


def _is_filled(cell: Any) -> bool:
    try:
        cell.cell_contents  # noqa: B018  raises if it is empty
    except ValueError:
        return False
    return True
