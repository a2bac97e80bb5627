"""Registers checks. A check is one file with one test, which the decorator :func:`check` describes.

The test takes a :class:`suites.cells.case.Case` named ``case``, usually with an ``evidence``::

    @check("eager", sees="the call outside jit", cells=KERNELS, order=10)
    def test_eager_call_is_right(case, evidence): ...

The name is the ``mode`` of the check's records and a column of the tables. The kill matrix (``kernel-bridge mutants``)
proves which faults the check sees. A new file needs no entry anywhere else: :func:`checks` imports every file of
:mod:`suites.checks.folders`.
"""

from __future__ import annotations

import functools
import hashlib
import importlib
import importlib.util
import inspect
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

from suites.cells.case import Case
from suites.cells.cell_table import Table
from suites.cells.selection import Selection
from suites.checks import folders
from suites.checks.folders import CheckError as CheckError

Test = TypeVar("Test", bound=Callable[..., Any])

LAST = 1000


@dataclass(frozen=True, kw_only=True)
class Check:
    """One check.

    Attributes:
        name: Its name in records and tables.
        sees: The faults that it finds, in a few words.
        cells: The cells that it runs on.
        order: Its place in tables: lower numbers come first, then names.
        file: The file of its test.
        function: The name of its test.
    """

    name: str
    sees: str
    cells: Table
    order: int
    file: Path
    function: str


_REGISTERED: dict[str, Check] = {}


def check(name: str, *, sees: str, cells: Table, order: int = LAST) -> Callable[[Test], Test]:
    """Returns a decorator that registers a test as a check, and leaves the test as it is.

    Args:
        name: A name that no other check has.
        sees: The faults that it finds, in a few words.
        cells: The cells that it runs on, from :mod:`suites.cells.tables` or its own table.
        order: Its place in tables; without one it comes last.

    Raises:
        CheckError: The name is taken, ``sees`` is empty, or the test takes no ``case``.
    """

    def register(test: Test) -> Test:
        found = Check(
            name=name, sees=sees, cells=cells, order=order,
            file=Path(inspect.getfile(sys.modules[test.__module__])).resolve(), function=test.__name__,
        )  # fmt: skip
        where = f"{found.file}: {found.function}"
        if not isinstance(name, str) or not name.strip():
            raise CheckError(f"{where}: its name is {name!r}, expected a word or two. Give @check a name.")
        if not isinstance(cells, Table):
            raise CheckError(
                f"{where}: cells is {cells!r}, expected a table of cells, such as KERNELS of suites.cells.tables.calls."
            )
        if not sees.strip():
            raise CheckError(f"{where}: says nothing of what it sees. Give @check its sees='...'.")
        if "case" not in inspect.signature(test).parameters:
            raise CheckError(f"{where}: has no parameter 'case'. A check takes the case that it runs on.")
        other = _REGISTERED.get(name)
        if other is not None and (other.file, other.function) != (found.file, found.function):
            raise CheckError(f"{where}: {name!r} is the name of {other.function} in {other.file} already. Rename one.")
        if any(each.function == found.function and each.name != name for each in _REGISTERED.values()):
            raise CheckError(f"{where}: another check's test has this name too. Rename the function.")
        _REGISTERED[name] = found
        return test

    return register


def checks() -> tuple[Check, ...]:
    """Returns all checks in the order of tables.

    Raises:
        CheckError: A file of checks cannot be imported, or holds a test that is not registered.
    """
    return _checks_of(tuple(folders.files()))


def check_of(file: Path, function: str) -> Check | None:
    """Returns the check that a test in an imported file makes; None if it is not registered."""
    path = file.resolve()
    return next((each for each in _REGISTERED.values() if (each.file, each.function) == (path, function)), None)


def check_of_id(nodeid: str) -> Check | None:
    """Returns the check that a test makes, by pytest's id of the test; None if there is none."""
    function = nodeid.partition("[")[0].rpartition("::")[2]
    return next((each for each in checks() if each.function == function), None)


def unregistered(file: Path, function: str) -> str:
    """Says what to do about an unregistered test in a file of checks."""
    return (
        f"{file}: {function} is not registered. Decorate it: @check('name', sees='what it is there for', "
        "cells=KERNELS), from suites.checks.register import check, from suites.cells.tables.calls import KERNELS."
    )


@functools.cache
def cells_of(check: Check, selection: Selection) -> tuple[Case, ...]:
    """Returns the cases that a selection chooses for a check."""
    return tuple(cell.values[0] for cell in check.cells.chosen(selection))


@functools.cache
def cases_by_id(selection: Selection) -> dict[str, Case]:
    """Returns every case of every check by its id; equal ids are equal cases."""
    return {cell.id: cell.values[0] for each in checks() for cell in each.cells.chosen(selection)}


@functools.cache
def _checks_of(files: tuple[Path, ...]) -> tuple[Check, ...]:
    for file in files:
        module = _imported(file)
        for name, value in vars(module).items():
            is_own = getattr(value, "__module__", None) == module.__name__
            if is_own and inspect.isclass(value) and name.startswith("Test"):
                raise CheckError(f"{file}: {name} is a class of tests. Make each check a function.")
            is_test = is_own and name.startswith("test") and inspect.isfunction(value)
            if is_test and check_of(file, name) is None:
                raise CheckError(unregistered(file, name))
    found = [each for each in _REGISTERED.values() if each.file in files]
    return tuple(sorted(found, key=lambda each: (each.order, each.name)))


def _imported(file: Path) -> ModuleType:
    try:
        if folders.is_built_in(file):
            return importlib.import_module(f"{__package__}.{file.stem}")
        return _of_file(file)
    except CheckError:
        raise
    except Exception as error:
        said = (str(error).strip() or "without a message").splitlines()[0]
        raise CheckError(f"{file}: cannot be imported, {type(error).__name__}: {said}") from error


def _of_file(file: Path) -> ModuleType:
    # The digest keeps files of one name in two folders apart.
    name = f"{file.stem}_{hashlib.sha256(str(file).encode()).hexdigest()[:8]}"
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module
