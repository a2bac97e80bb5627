"""Registers checks. A check is one test, which the decorator :func:`check` describes.

The test takes a :class:`suites.cells.case.Case` named ``case``, usually with an ``evidence``::

    @check("sizes", sees="errors at some sizes only", cells=KERNELS)
    def test_every_size_is_right(case, evidence): ...

The name is the ``mode`` of the check's records and a column of the tables. The broken kernels (``nox -s mutants``)
prove which faults the check sees. A new file needs no entry anywhere else: :func:`checks` imports every ``test_*.py``
of this folder.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from suites.cells.case import Case
from suites.cells.selection import Selection
from suites.cells.tables import CellTable
from suites.errors import SelectionError

Test = TypeVar("Test", bound=Callable[..., Any])

FILES = ("calls", "sizes", "memory", "state", "batches", "devices", "refusals", "derivatives")
"""The order of files in tables."""


class CheckError(SelectionError):
    """A check is not registered, or its registration is wrong."""


@dataclass(frozen=True, kw_only=True)
class Check:
    """One check.

    Attributes:
        name: Its name in records and tables.
        sees: The faults that it finds, in a few words.
        cells: The cells that it runs on.
        file: The file of its test.
        function: The name of its test.
        test: The test.
    """

    name: str
    sees: str
    cells: CellTable
    file: Path
    function: str
    test: Callable[..., Any]


_REGISTERED: dict[str, Check] = {}


def check(name: str, *, sees: str, cells: CellTable) -> Callable[[Test], Test]:
    """Returns a decorator that registers a test as a check, and leaves the test as it is.

    Args:
        name: A name that no other check has.
        sees: The faults that it finds, in a few words.
        cells: The cells that it runs on, from :mod:`suites.cells.tables` or its own table.

    Raises:
        CheckError: The name is taken, or the test takes no ``case``.
    """

    def register(test: Test) -> Test:
        entry = Check(
            name=name, sees=sees, cells=cells,
            file=Path(inspect.getfile(sys.modules[test.__module__])).resolve(), function=test.__name__,
            test=test,
        )  # fmt: skip
        where = f"{entry.file}: {entry.function}"
        other = _REGISTERED.get(name)
        if other is not None and (other.file, other.function) != (entry.file, entry.function):
            raise CheckError(f"{where}: {name!r} is the name of {other.function} in {other.file} already. Rename one.")
        _REGISTERED[name] = entry
        return test

    return register


@functools.cache
def checks() -> tuple[Check, ...]:
    """Returns all checks in the order of tables."""
    ordered = []
    for file in sorted(Path(__file__).resolve().parent.glob("test_*.py"), key=_position):
        importlib.import_module(f"{__package__}.{file.stem}")
        ordered += [each for each in _REGISTERED.values() if each.file == file]
    return tuple(ordered)


def _position(file: Path) -> int:
    """Returns the position of a file in tables; new files come last."""
    name = file.stem.removeprefix("test_")
    return FILES.index(name) if name in FILES else len(FILES)


def check_of_id(nodeid: str) -> Check | None:
    """Returns the check of a test, by pytest's id of the test; None if there is none."""
    function = nodeid.partition("[")[0].rpartition("::")[2]
    return next((each for each in checks() if each.function == function), None)


@functools.cache
def cells_of(check: Check, selection: Selection) -> tuple[Case, ...]:
    """Returns the cases of a check in a selection."""
    return tuple(cell.values[0] for cell in check.cells.chosen(selection))


@functools.cache
def cases_by_id(selection: Selection) -> dict[str, Case]:
    """Returns every case of every check by its id; equal ids are equal cases."""
    return {case.id: case for each in checks() for case in cells_of(each, selection)}
