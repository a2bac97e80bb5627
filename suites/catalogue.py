"""Files or modules with operators in, the operators that are tested out; without any, those of :mod:`suites.ops`.

What counts is what a module holds under a public name: operators, and lists, tuples and dicts of them.
"""

from __future__ import annotations

import functools
import hashlib
import importlib
import importlib.util
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import ModuleType

from suites import ops
from suites.operator import Operator
from suites.selection import SelectionError

_sources: tuple[str, ...] = ()


class CatalogueError(SelectionError):
    """A file or module from which no operators can be taken."""


def use(sources: Iterable[str]) -> None:
    """Makes these the operators that :func:`operators` gives, in this process.

    Args:
        sources: Paths of Python files, or names of modules; none for the operators of this package.

    Raises:
        CatalogueError: A source cannot be found or imported, holds no operator, or one of a name that is taken.
    """
    global _sources
    _sources = tuple(str(source) for source in sources)
    operators.cache_clear()
    operators()


@functools.cache
def operators() -> dict[str, Operator]:
    """The operators that are tested, by name."""
    if not _sources:
        return ops.operators()
    found: dict[str, Operator] = {}
    for source in _sources:
        module = _imported(source)
        public = [value for name, value in vars(module).items() if not name.startswith("_")]
        held = list(dict.fromkeys(_held([*public, getattr(module, "OPERATORS", None)])))
        if not held:
            raise CatalogueError(
                f"{source}: holds no operator; expected a suites.operator.Operator, or a list, under a public name."
            )
        for operator in held:
            if operator.name in found:
                raise CatalogueError(f"{source}: a second operator is named {operator.name!r}. Give each its own name.")
            found[operator.name] = operator
    return found


def _imported(source: str) -> ModuleType:
    path = Path(source)
    is_file = path.suffix == ".py"
    if is_file and not path.is_file():
        raise CatalogueError(f"{source}: there is no such file.")
    try:
        return _of_file(path.resolve()) if is_file else importlib.import_module(source)
    except ModuleNotFoundError as error:
        # Without operators is not the same as with a missing dependency.
        hint = " Give the path of a Python file, or the name of a module." if error.name == source else ""
        raise CatalogueError(f"{source}: {error}.{hint}") from error
    except Exception as error:
        raise CatalogueError(f"{source}: cannot be imported, {type(error).__name__}: {error}") from error


def _of_file(path: Path) -> ModuleType:
    # Numba, inspect and pickle find a module in sys.modules by its name, which is the same in every process.
    name = f"{path.stem}_{hashlib.sha256(str(path).encode()).hexdigest()[:8]}"
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    sys.path.append(str(path.parent))  # for the modules beside it, which its kernels may be in
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def _held(values: Iterable[object]) -> Iterator[Operator]:
    for value in values:
        if isinstance(value, Operator):
            yield value
        elif isinstance(value, list | tuple):
            yield from (each for each in value if isinstance(each, Operator))
        elif isinstance(value, dict):
            yield from (each for each in value.values() if isinstance(each, Operator))


def files() -> list[Path]:
    """The files that the operators in use were taken from; none for those of this package."""
    modules = [_imported(source) for source in _sources]
    return [Path(module.__file__) for module in modules if module.__file__]
