"""Remembers how C++ functions of Warp kernels use arrays, for :mod:`bridge.languages.warp.uses`.

Warp's own code shows what a kernel does with the memory of an array. The C++ of a ``warp.func_native`` does not. So an
array that it gets is copied before the call, if the array is an input, unless the author of the function says here that
nothing is written to it.
"""

from __future__ import annotations

from typing import Any

from bridge.languages.warp.uses import READ, WRITE

_DECLARED: dict[int, tuple[Any, str]] = {}  # with the function, so that no other gets its id


def declare_reader(function: Any) -> Any:
    """Says that a ``warp.func_native`` only reads its arrays, and that its adjoint writes to adjoint arrays only.

    Args:
        function: The function. Its result does not lead to the memory of an array.

    Returns:
        The function.
    """
    return _declare("declare_reader", function, READ)


def declare_writer(function: Any) -> Any:
    """Says that a ``warp.func_native`` writes to its first argument, of all its arrays.

    Its adjoint writes to adjoint arrays only, and so does its replay snippet, which an adjoint runs instead of the
    function.

    Args:
        function: The function. It returns nothing.

    Returns:
        The function.
    """
    return _declare("declare_writer", function, WRITE)


def declared_use(function: Any) -> str | None:
    """How a function was declared to use its first array: READ, WRITE, or None if it was not declared."""
    _, use = _DECLARED.get(id(function), (None, None))
    return use


def _declare(asked: str, function: Any, use: str) -> Any:
    if getattr(function, "native_snippet", None) is None:
        raise TypeError(f"{asked}: got {function!r}, expected what warp.func_native returns.")
    _DECLARED[id(function)] = function, use
    return function
