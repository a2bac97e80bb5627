"""Identifies Python functions by content: equal in every process, and different if the compiled code would differ.

The digest covers everything that Numba freezes when it compiles: bytecode, constants, default arguments, closure
variables, and the globals, module attributes and functions that the code refers to, followed recursively. It leaves out
the names of files and the line numbers.
"""

from __future__ import annotations

import enum
import hashlib
import itertools
import types
import weakref
from collections.abc import Iterable, Mapping
from typing import Any

import numba
import numpy as np

PROCESS_LOCAL = "local"
"""Prefix of a digest that covers an object without content to hash. It is valid in this process only."""

_LIBRARIES = frozenset({"cmath", "math", "numba", "numba_cuda", "numpy", "operator"})


def function_digest(function: types.FunctionType, *options: Any) -> str:
    """SHA-256 over the content of a function and of the given compiler options, as hex.

    An object without content to hash (an open file, an instance of a user's class) counts by its identity. The digest
    then starts with :data:`PROCESS_LOCAL`.
    """
    walk = ContentWalk()
    walk.feed(function)
    walk.feed(options)
    digest = walk.sha.hexdigest()
    return digest if walk.portable else f"{PROCESS_LOCAL}-{digest}"


class ContentWalk:
    """Feeds values to a SHA-256, by content and recursively.

    Attributes:
        sha: The hash so far.
        portable: Whether it is the same in every process: whether all values had content to hash.
    """

    def __init__(self) -> None:
        self.sha = hashlib.sha256()
        self.portable = True
        self._visited: dict[int, int] = {}
        self._kept: list[Any] = []

    def _tag(self, *parts: str) -> None:
        for part in parts:
            data = part.encode("utf-8", "surrogatepass")
            self.sha.update(len(data).to_bytes(8, "little") + data)

    def feed(self, value: Any) -> None:
        """Adds a value to the digest, with everything that it refers to."""
        if value is None or (
            isinstance(value, bool | int | float | complex | str | bytes) and not isinstance(value, enum.Enum)
        ):
            self._tag(type(value).__name__, repr(value))
        elif id(value) in self._visited:
            self._tag("again", str(self._visited[id(value)]))
        else:
            self._visited[id(value)] = len(self._visited)
            self._kept.append(value)  # an id is unique only while its object lives
            self._feed_object(value)

    def _feed_object(self, value: Any) -> None:
        match value:
            case tuple() | list():
                self._sequence(type(value).__qualname__, value)
            case set() | frozenset():
                self._sequence("set", sorted(value, key=repr))
            case Mapping():
                self._sequence("mapping", sorted(value.items(), key=lambda item: repr(item[0])))
            case enum.Enum():
                self._sequence("enum", (type(value).__module__, type(value).__qualname__, value.name, value.value))
            case np.ndarray() | np.generic() if not value.dtype.hasobject:
                self._tag("array", repr(value.dtype), repr(value.shape), hashlib.sha256(value.tobytes()).hexdigest())
            case np.dtype() | numba.types.Type():
                self._tag("dtype", str(value))
            case types.CodeType():
                self._code(value)
            case types.FunctionType():
                self._function(value)
            case types.ModuleType():
                self._tag("module", value.__name__)
            case type() | types.BuiltinFunctionType() | np.ufunc():
                self._tag(
                    "name", getattr(value, "__module__", None) or "", getattr(value, "__qualname__", value.__name__)
                )
            case _ if isinstance(function := getattr(value, "py_func", None), types.FunctionType):
                self._sequence("dispatcher", (function, getattr(value, "targetoptions", {})))
            case _ if _is_library(type(value).__module__):
                # Objects of a library are identified by name: NumPy's array functions, Numba's intrinsics.
                name = getattr(value, "__qualname__", None) or getattr(value, "_name", None) or repr(value)
                self._tag("library", type(value).__module__, type(value).__qualname__, name)
            case _:
                self._opaque(value)

    def _sequence(self, kind: str, items: Iterable[Any]) -> None:
        items = tuple(items)
        self._tag(kind, str(len(items)))
        for item in items:
            self.feed(item)

    def _code(self, code: types.CodeType) -> None:
        self._tag("code", code.co_name, str(code.co_flags), str(code.co_argcount), str(code.co_kwonlyargcount))
        self._tag(code.co_code.hex(), getattr(code, "co_exceptiontable", b"").hex())
        # A docstring is a constant too; it stays in, since telling it from other constants is not worth a special case.
        self._sequence("constants", code.co_consts)
        self._sequence("names", (code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars))

    def _function(self, function: types.FunctionType) -> None:
        self._tag("function")
        self.feed(function.__code__)
        self._sequence("defaults", (function.__defaults__, function.__kwdefaults__))
        for cell in function.__closure__ or ():
            try:
                self.feed(cell.cell_contents)
            except ValueError:  # not assigned yet
                self._tag("empty cell")
        names = sorted(_names(function.__code__))
        for name in names:
            if name not in function.__globals__:
                continue
            value = function.__globals__[name]
            self._tag("global", name)
            self.feed(value)
            if isinstance(value, types.ModuleType) and not _is_library(value.__name__):
                self._module_attributes(value, names)

    def _module_attributes(self, module: types.ModuleType, names: Iterable[str]) -> None:
        # Numba freezes `settings.SCALE` like a global. The bytecode does not tell which module a name belongs to, so
        # every name that the module has is taken.
        for name in names:
            if name in vars(module):
                self._tag("attribute", name)
                self.feed(vars(module)[name])

    def _opaque(self, value: Any) -> None:
        self.portable = False
        self._tag("opaque", type(value).__qualname__, str(_serial(value)))


def _is_library(module: str) -> bool:
    """Whether a module belongs to a library whose contents change only with its version."""
    return module.partition(".")[0] in _LIBRARIES


def _names(code: types.CodeType) -> set[str]:
    nested = (constant for constant in code.co_consts if isinstance(constant, types.CodeType))
    return set(code.co_names).union(*map(_names, nested))


_serials = itertools.count()
_serial_of_referable: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()
_serial_of_other: dict[int, tuple[int, Any]] = {}


def _serial(value: Any) -> int:
    """A number for an object without content, never given to another object."""
    try:
        return _serial_of_referable.setdefault(value, next(_serials))
    except TypeError:  # no weak reference, or no hash: keep the object, so that no other one gets its id
        return _serial_of_other.setdefault(id(value), (next(_serials), value))[0]
