"""Loads the operators to test from files or modules; by default the built-in ones of :mod:`suites.ops`.

A module gives every operator that it holds under a public name, also in a list, tuple or dict.
"""

from __future__ import annotations

import functools
import hashlib
import importlib
import importlib.util
import sys
import traceback
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from types import ModuleType

from bridge import XLACustomKernel
from suites import ops
from suites.cells.selection import require_files
from suites.declare.contradictions import verify
from suites.declare.operator import Operator
from suites.errors import CatalogueError as CatalogueError
from suites.errors import OperatorError

_sources: tuple[str, ...] = ()


def use(sources: Iterable[str]) -> None:
    """Makes :func:`operators` return these operators, in this process.

    Args:
        sources: Paths of Python files, or names of modules; none for the operators of this package.

    Raises:
        CatalogueError: A source cannot be found or imported, holds no operator, or two operators have one name.
    """
    global _sources
    _sources = tuple(str(source) for source in sources)
    operators.cache_clear()
    operators()


@functools.cache
def operators() -> dict[str, Operator]:
    """Returns the operators to test, by name."""
    if not _sources:
        return ops.operators()
    by_name: dict[str, Operator] = {}
    homes: dict[str, str] = {}
    for source in _sources:
        module = _import(source)
        public = [value for name, value in vars(module).items() if not name.startswith("_")]
        own = list(dict.fromkeys(_operators_in([*public, getattr(module, "OPERATORS", None)])))
        if not own:
            custom = next((name for name, value in vars(module).items() if isinstance(value, XLACustomKernel)), None)
            if custom is not None:
                raise CatalogueError(
                    f"{source}: holds no operator, but the XLACustomKernel {custom}. Declare it: OPERATOR = "
                    f"suites.operator_of({custom}), with its parameters in a dict if it has any."
                )
            raise CatalogueError(
                f"{source}: holds no operator. Give it one under a public name: OPERATOR = suites.Operator(name=..., "
                "reference=..., kernels={...}), or a list OPERATORS."
            )
        for operator in own:
            if by_name.setdefault(operator.name, operator) is not operator:
                where = "" if homes[operator.name] == source else f", as one of {homes[operator.name]}"
                raise CatalogueError(f"{source}: a second operator is named {operator.name!r}{where}. Rename one.")
            homes.setdefault(operator.name, source)
    return by_name


def sources() -> tuple[str, ...]:
    """Returns the files and modules of the last call of :func:`use`; none for the operators of this package."""
    return _sources


def check(platform: str, names: Collection[str] = ()) -> None:
    """Refuses a user's operators that contradict themselves, before any cell runs.

    Each operator makes its smallest inputs in each dtype, the specs of its outputs and its edge cases. Call this after
    JAX was set up.

    Args:
        platform: The platform of the cells: ``cpu`` or ``cuda``.
        names: The operators to check; none for all.

    Raises:
        CatalogueError: An operator contradicts itself.
    """
    if not _sources:
        return
    chosen = [operator for name, operator in operators().items() if not names or name in names]
    for operator in chosen:
        try:
            verify(operator, platform)
        except OperatorError as error:
            raise CatalogueError(str(error)) from error


def _import(source: str) -> ModuleType:
    require_files([source])
    path = Path(source)
    is_file = path.suffix == ".py"
    if not is_file and path.is_dir() and not source.isidentifier():
        raise CatalogueError(f"{source}: is a folder. Give the path of a Python file, or the name of a module.")
    try:
        return _import_file(path.resolve()) if is_file else importlib.import_module(source)
    except ModuleNotFoundError as error:
        # A missing dependency of the module is not a missing module.
        if error.name not in (source, source.partition(".")[0]) or is_file:
            raise CatalogueError(f"{source}: {error}{_location(error, path)}") from error
        near = Path(f"{source}.py")
        hint = f"Did you mean {near}?" if near.is_file() else "Give the path of a Python file, or the name of a module."
        raise CatalogueError(f"{source}: there is no such module. {hint}") from error
    except (Exception, SystemExit) as error:
        text = str(error).strip() or "without a message"
        message = " ".join(text.split()) if isinstance(error, SyntaxError | OperatorError) else text.splitlines()[0]
        kind = "" if isinstance(error, OperatorError) else f"cannot be imported, {type(error).__name__}: "
        raise CatalogueError(f"{source}: {kind}{message}{_location(error, path)}") from error


def _location(error: BaseException, path: Path) -> str:
    """Returns the line of the user's file that raised an error, as text; empty if there is none."""
    if isinstance(error, SyntaxError):
        return ""
    frames = traceback.extract_tb(error.__traceback__)
    lines = [frame.lineno for frame in frames if frame.filename == str(path.resolve())]
    return f" ({path}:{lines[-1]})" if lines else ""


def _import_file(path: Path) -> ModuleType:
    # Numba, inspect and pickle find a module in sys.modules by its name, so the name is the same in every process. With
    # the digest, it differs from the names of libraries, of this package and of other files.
    name = f"{path.stem}_{hashlib.sha256(str(path).encode()).hexdigest()[:8]}"
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    if str(path.parent) not in sys.path:
        sys.path.append(str(path.parent))  # so that it can import modules beside it; libraries come first
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def _operators_in(value: object) -> Iterator[Operator]:
    """Yields a value that is an operator, or the operators in a list, tuple or dict."""
    if isinstance(value, Operator):
        yield value
    elif isinstance(value, list | tuple | dict):
        for each in value.values() if isinstance(value, dict) else value:
            yield from _operators_in(each)


def files() -> list[Path]:
    """Returns the files of the operators in use; none for the built-in ones."""
    modules = [_import(source) for source in _sources]
    return [Path(module.__file__) for module in modules if module.__file__]
