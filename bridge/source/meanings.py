"""Notes what the names in a function mean when Numba compiles it. Afterwards they may mean something else.

Numba takes globals, variables of closures and attributes of modules for constants. Its code keeps the numbers and the
functions that it found, whatever the names stand for later. So a conclusion from the source of a compiled function has
to use the notes. There are none of code from Numba's disk cache, and of code that was compiled before this package was
imported.
"""

from __future__ import annotations

import builtins
import functools
import types
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from bridge.source.on_import import when_imported

_COMPILERS = ("numba.core.compiler", "numba.cuda.core.compiler")
_NOTES = "_bridge_meanings"
_LINKED = "_linking_libraries"


@dataclass(frozen=True, eq=False)
class Meanings:
    """What the names in a function mean at one time.

    Attributes:
        function: The function.
        code: Its code.
        names: The values of its global and closure variables, and of the builtins that it uses.
        attributes: The values of attributes of modules, by module and attribute.
    """

    function: types.FunctionType
    code: types.CodeType
    names: Mapping[str, Any]
    attributes: Mapping[tuple[types.ModuleType, str], Any]

    @classmethod
    def of(cls, function: types.FunctionType) -> Meanings:
        """What they mean now."""
        used = _used_names(function.__code__)
        names = {name: getattr(builtins, name) for name in used if hasattr(builtins, name)}
        names |= {name: function.__globals__[name] for name in used if name in function.__globals__}
        for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
            try:
                names[name] = cell.cell_contents
            except ValueError:  # not assigned yet
                names.pop(name, None)
        attributes: dict[tuple[types.ModuleType, str], Any] = {}
        pending = [value for value in names.values() if isinstance(value, types.ModuleType)]
        while pending:
            module = pending.pop()
            found = {(module, name): vars(module)[name] for name in used if name in vars(module)}
            pending += [
                value for key, value in found.items() if isinstance(value, types.ModuleType) and key not in attributes
            ]
            attributes |= found
        return cls(function, function.__code__, names, attributes)

    def agreeing(self, other: Meanings) -> Meanings:
        """The meanings that were the same at another time."""
        return Meanings(
            self.function, self.code, _common(self.names, other.names), _common(self.attributes, other.attributes)
        )


def note_meanings() -> None:
    """Makes Numba's compilers note what names mean from now on: at once, or as soon as something imports them."""
    for compiler in _COMPILERS:
        when_imported(compiler, _note_meanings_in)


class LinkedMeanings:
    """What names mean in the code of a kernel, and of the functions that are linked with it.

    Args:
        library: Numba's library of the kernel's code.
        is_known: Whether a library without notes holds no code of a Python function.
    """

    def __init__(self, library: Any, is_known: Callable[[Any], bool]):
        libraries = list(_linked(library, set()))
        self._notes = [note for each in libraries for note in vars(each).get(_NOTES, ())]
        # A version of Numba that names its linked libraries otherwise tells nothing of them.
        self._is_complete = all(
            hasattr(each, _LINKED) and (_NOTES in vars(each) or is_known(each)) for each in libraries
        )

    def of(self, function: types.FunctionType) -> Meanings | None:
        """What the names in a function mean in all of its code; None if that is not known."""
        notes: list[Meanings] = [note for note in self._notes if note.function is function]
        if not self._is_complete or not notes or any(note.code is not function.__code__ for note in notes):
            return None
        return functools.reduce(Meanings.agreeing, notes)


def _note_meanings_in(compiler: types.ModuleType) -> None:
    compiler_type: Any = compiler.CompilerBase
    compile_core = getattr(compiler_type, "_compile_core", None)
    if compile_core is None:  # a version of Numba without it: no code has notes, so nothing is proved of it
        return

    def compile_and_note(self: Any) -> Any:
        function = self.state.func_id.func
        before = Meanings.of(function)
        result = compile_core(self)
        if (library := self.state.library) is not None:
            vars(library).setdefault(_NOTES, []).append(before.agreeing(Meanings.of(function)))
        return result

    compiler_type._compile_core = compile_and_note


def _linked(library: Any, seen: set[int]) -> Iterator[Any]:
    """A library of code and the libraries that it is linked with, directly or not."""
    if id(library) not in seen:
        seen.add(id(library))
        yield library
        for each in getattr(library, _LINKED, ()):
            yield from _linked(each, seen)


def _used_names(code: types.CodeType) -> set[str]:
    inner = (constant for constant in code.co_consts if isinstance(constant, types.CodeType))
    return set(code.co_names).union(*map(_used_names, inner))


def _common(one: Mapping[Any, Any], other: Mapping[Any, Any]) -> dict[Any, Any]:
    return {key: value for key, value in one.items() if key in other and other[key] is value}
