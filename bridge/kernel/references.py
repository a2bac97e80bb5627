"""Finds what a Python function takes from outside, one level deep, for errors and for keys."""

from __future__ import annotations

import builtins
import contextlib
import dis
import types
from collections import ChainMap
from collections.abc import Callable, Hashable
from typing import Any

import jax


def python_function(value: Any) -> types.FunctionType | None:
    """The Python function in a value: itself, or what Numba, Warp or ``jax.jit`` made the value from."""
    candidates = (value, *(getattr(value, name, None) for name in ("py_func", "func", "__wrapped__")))
    return next((each for each in candidates if isinstance(each, types.FunctionType)), None)


def references(function: types.FunctionType) -> dict[str, Any]:
    """The values that a function takes from its globals and its closure, by name."""
    code = function.__code__
    # Not all of co_names: attributes are among them.
    named = [each.argval for each in dis.get_instructions(code) if each.opname == "LOAD_GLOBAL"]
    found = {name: function.__globals__[name] for name in named if name in function.__globals__}
    for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
        with contextlib.suppress(ValueError):  # not assigned yet
            found[name] = cell.cell_contents
    return found


def array_hint(kernel: types.FunctionType) -> str:
    """A last line for the error of a compiler: the JAX array that a kernel, or a function that it calls, refers to.

    Empty if there is none. Compilers do not know JAX arrays, so their own text seldom tells what is wrong.
    """
    called = [each for each in map(python_function, references(kernel).values()) if each is not None]
    for function in (kernel, *called):
        for name, value in references(function).items():
            if isinstance(value, jax.Array):
                return (
                    f"\n{function.__name__} refers to the JAX array {name!r}, which compiled code cannot use. Make it "
                    "a parameter of the kernel, before the outputs, and pass it in the call."
                )
    return ""


def key_of_function(function: Callable[..., Any]) -> Hashable:
    """A key for as long as the function lives. Functions with equal keys do the same, and always will.

    A lambda that takes nothing from around it but JAX, NumPy and Python's types is the same whenever its line runs
    again. Any other function equals itself alone: a variable may have another value then. The key refers to nothing.
    """
    if not isinstance(function, types.FunctionType):
        return id(function)
    code, outside = function.__code__, ChainMap(function.__globals__, vars(builtins))
    names = [each.argval for each in dis.get_instructions(code) if each.opname in ("LOAD_GLOBAL", "IMPORT_NAME")]
    takes = function.__closure__ or function.__defaults__ or function.__kwdefaults__
    if takes or any(isinstance(each, types.CodeType) for each in code.co_consts):
        return id(function)
    return id(code) if all(_is_of_a_library(outside.get(name)) for name in names) else id(function)


def _is_of_a_library(value: Any) -> bool:
    """Whether a value is a module, a class or a Python function of JAX or NumPy, or a type of Python."""
    is_named = isinstance(value, types.ModuleType | type | types.FunctionType)
    home = value.__name__ if isinstance(value, types.ModuleType) else getattr(value, "__module__", None)
    return is_named and str(home).partition(".")[0] in {"jax", "numpy", "builtins"}


def place_of(function: Callable[..., Any]) -> str:
    """File and line of a function if it has them; else its text."""
    code = getattr(function, "__code__", None)
    return f"{code.co_filename}:{code.co_firstlineno}" if code is not None else repr(function)
