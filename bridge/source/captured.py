"""Finds JAX arrays that a kernel takes from its closure or its globals, which a compiled kernel cannot use."""

from __future__ import annotations

import dis
import inspect
import sys
import types
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import jax

from bridge.errors import KernelCompileError

_LIBRARIES = frozenset({"jax", "numba", "numba_cuda", "numpy", "scipy", "warp", *sys.stdlib_module_names})
"""Functions of these modules hold none of the user's arrays."""

_MOST_FUNCTIONS = 256
"""The most functions to look at: a function of a large library may lead through all of it."""

_LOADS_GLOBAL = frozenset({"LOAD_GLOBAL", "LOAD_NAME"})
_LOADS_CELL = frozenset({"LOAD_DEREF", "LOAD_CLOSURE", "LOAD_CLASSDEREF"})
_LOADS_ATTRIBUTE = frozenset({"LOAD_ATTR", "LOAD_METHOD"})


@dataclass(frozen=True)
class Captured:
    """A JAX array that a function uses, but does not get as an argument.

    Attributes:
        function: The function that uses it: the kernel, or a function that the kernel calls.
        name: Its name in the source.
        source: "closure", "globals" or "defaults".
        value: The array, or a container that holds it.
        array: The array.
        line: Where the function uses it.
        compiled: Whether a kernel language decorated the function or one of its callers.
    """

    function: types.FunctionType
    name: str
    source: str
    value: Any
    array: Any
    line: int
    compiled: bool

    @property
    def is_traced(self) -> bool:
        return isinstance(self.array, jax.core.Tracer)

    def __str__(self) -> str:
        kind = "traced JAX array" if self.is_traced else "JAX array"
        about = f"{self.array.dtype}{list(self.array.shape)}"
        what = f"the {kind} {self.name!r} ({about})"
        if self.value is not self.array:
            what = f"{self.name!r}, a {type(self.value).__name__} with a {kind} ({about}),"
        return f"{what} from its {self.source} ({self.function.__code__.co_filename}:{self.line})"


def captured_error(name: str, place: str, function: types.FunctionType) -> KernelCompileError | None:
    """The error for a kernel that uses a JAX array that is not an argument; None if it uses no such array.

    Args:
        name: The kernel.
        place: Its file and line.
        function: The Python function that the user wrote.
    """
    found = next(captured_arrays(function), None)
    return None if found is None else error_of(name, place, function, found)


def error_of(name: str, place: str, function: types.FunctionType, found: Captured) -> KernelCompileError:
    """The error for a kernel that uses the array ``found``."""
    direct = found.function is function
    via = "" if direct else f"calls {found.function.__name__}, which "
    cure = (
        f"Make it a parameter of {name}, before the outputs"
        if direct
        else f"Make it a parameter of {found.function.__name__} and of {name}, before the outputs"
    )
    return KernelCompileError(
        f"{name} ({place}) {via}uses {found}, but a compiled kernel has no arrays besides those that it is passed. "
        f"{cure}, and pass it in the call."
    )


def captured_arrays(function: types.FunctionType) -> Iterator[Captured]:
    """The JAX arrays that a function and the functions that it calls take from closures, globals and modules."""
    seen: set[int] = set()
    pending = [(function, False)]
    while pending and len(seen) < _MOST_FUNCTIONS:
        current, compiled = pending.pop(0)
        if id(current) in seen:
            continue
        seen.add(id(current))
        for name, source, value, line in _references(current):
            if (called := _function_of(value)) is not None:
                pending.append((called, compiled or called is not value))
            elif (array := _array_in(value)) is not None:
                yield Captured(current, name, source, value, array, line, compiled)


def _references(function: types.FunctionType) -> Iterator[tuple[str, str, Any, int]]:
    """Name, source, value and line of all references in the code of a function and of functions inside it."""
    for name, parameter in inspect.signature(function).parameters.items():
        if parameter.default is not parameter.empty:
            yield name, "defaults", parameter.default, function.__code__.co_firstlineno
    cells = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))
    pending = [function.__code__]
    while pending:
        code = pending.pop()
        pending += [constant for constant in code.co_consts if isinstance(constant, types.CodeType)]
        instructions = list(dis.get_instructions(code))
        for index, instruction in enumerate(instructions):
            name = instruction.argval
            if instruction.opname in _LOADS_GLOBAL and name in function.__globals__:
                source, value = "globals", function.__globals__[name]
            elif instruction.opname in _LOADS_CELL and name in cells:
                source = "closure"
                try:
                    value = cells[name].cell_contents
                except ValueError:  # not assigned yet
                    continue
            else:
                continue
            for following in instructions[index + 1 :]:
                if not isinstance(value, types.ModuleType) or following.opname not in _LOADS_ATTRIBUTE:
                    break
                name, value = f"{name}.{following.argval}", getattr(value, following.argval, None)
            line = instruction.positions.lineno if instruction.positions else None
            yield name, source, value, line or code.co_firstlineno


def _function_of(value: Any) -> types.FunctionType | None:
    """The Python function of a helper: the value itself, or the function that Numba or Warp made it from."""
    for found in (value, getattr(value, "py_func", None), getattr(value, "func", None)):
        if isinstance(found, types.FunctionType):
            return None if (found.__module__ or "").partition(".")[0] in _LIBRARIES else found
    return None


def _array_in(value: Any, depth: int = 3) -> Any:
    """The value if it is a JAX array, or the first one in a container."""
    if isinstance(value, jax.Array):
        return value
    items = value.values() if isinstance(value, Mapping) else value if isinstance(value, tuple | list) else ()
    if depth == 0:
        return None
    return next((found for item in items if (found := _array_in(item, depth - 1)) is not None), None)
