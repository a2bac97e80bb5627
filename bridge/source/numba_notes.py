"""Notes the LLVM code that Numba lowers, before Numba optimises it for this machine.

Numba keeps only optimised code, which depends on the machine. So each library of code notes what it was given. There
are no notes of code in Numba's disk cache, and of code that was compiled before this package was imported.
"""

from __future__ import annotations

import weakref
import zlib
from types import ModuleType
from typing import Any

from bridge.source.on_import import when_imported

_lowered: weakref.WeakKeyDictionary[Any, list[bytes]] = weakref.WeakKeyDictionary()


def take_notes() -> None:
    """Makes Numba note what it lowers from now on: at once, or as soon as something imports Numba."""
    when_imported("numba.core.codegen", _take_notes_in)


def notes_of(library: Any) -> list[str] | None:
    """The LLVM modules that a library of code was given, as text; None if they were not noted."""
    notes = _lowered.get(library)
    return None if notes is None else [zlib.decompress(note).decode() for note in notes]


def is_noted(library: Any) -> bool:
    """Whether a library of code was lowered in this process, since this package was imported."""
    return library in _lowered


def _take_notes_in(codegen: ModuleType) -> None:
    library_type: Any = codegen.CPUCodeLibrary
    add, serialize = library_type.add_llvm_module, library_type.serialize_using_object_code

    def note_and_add(library: Any, module: Any) -> None:
        _lowered.setdefault(library, []).append(zlib.compress(str(module).encode(), 1))
        add(library, module)

    def forget_and_serialize(library: Any) -> Any:
        _lowered.pop(library, None)  # another process will load it without notes
        return serialize(library)

    library_type.add_llvm_module = note_and_add
    library_type.serialize_using_object_code = forget_and_serialize
