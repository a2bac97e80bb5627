"""Notes the LLVM code that Numba lowers, before Numba optimises it for this machine.

Numba keeps only optimised code, which depends on the machine. So each library of code notes what it was given. There
are no notes of code in Numba's disk cache, and of code that was compiled before this package was imported.
"""

from __future__ import annotations

import importlib.util
import sys
import weakref
import zlib
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

_CODEGEN = "numba.core.codegen"

_lowered: weakref.WeakKeyDictionary[Any, list[bytes]] = weakref.WeakKeyDictionary()


def take_notes() -> None:
    """Makes Numba note what it lowers from now on: at once, or as soon as something imports Numba."""
    imported = sys.modules.get(_CODEGEN)
    if imported is None:
        sys.meta_path.insert(0, _UntilImported())
    else:
        _take_notes_in(imported)


def notes_of(library: Any) -> list[str] | None:
    """The LLVM modules that a library of code was given, as text; None if they were not noted."""
    notes = _lowered.get(library)
    return None if notes is None else [zlib.decompress(note).decode() for note in notes]


class _UntilImported(MetaPathFinder):
    """Waits until Numba's code generator is imported. The importers that come after it do that."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != _CODEGEN:
            return None
        if self in sys.meta_path:
            sys.meta_path.remove(self)
        spec = importlib.util.find_spec(fullname)
        if spec is not None and spec.loader is not None:
            spec.loader = _Noting(spec.loader)
        return spec


class _Noting(Loader):
    """Loads the module as another loader does, and then makes it note what Numba lowers."""

    def __init__(self, loader: Loader):
        self._loader = loader

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        spec = module.__spec__
        if spec is not None:
            spec.loader = module.__loader__ = self._loader  # inspect reads the source through it
        self._loader.exec_module(module)
        _take_notes_in(module)


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
