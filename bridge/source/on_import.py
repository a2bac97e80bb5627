"""Changes modules as soon as something imports them, so that the bridge need not import them itself."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType


def when_imported(name: str, change: Callable[[ModuleType], None]) -> None:
    """Changes a module: at once if it is imported already, or else right after its own code has run."""
    imported = sys.modules.get(name)
    if imported is None:
        sys.meta_path.insert(0, _UntilImported(name, change))
    else:
        change(imported)


class _UntilImported(MetaPathFinder):
    """Waits until a module is imported. The importers that come after it do that."""

    def __init__(self, name: str, change: Callable[[ModuleType], None]):
        self._name, self._change = name, change

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != self._name:
            return None
        if self in sys.meta_path:
            sys.meta_path.remove(self)
        spec = importlib.util.find_spec(fullname)
        if spec is not None and spec.loader is not None:
            spec.loader = _Changing(spec.loader, self._change)
        return spec


class _Changing(Loader):
    """Loads a module as another loader does, and then changes it."""

    def __init__(self, loader: Loader, change: Callable[[ModuleType], None]):
        self._loader, self._change = loader, change

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        spec = module.__spec__
        if spec is not None:
            spec.loader = module.__loader__ = self._loader  # inspect reads the source through it
        self._loader.exec_module(module)
        self._change(module)
