"""Parametrizes the tests of checks by their cells, and marks, drops and orders the resulting pytest items."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from reports import Cell
from suites.cells.case import Case
from suites.cells.parts import share
from suites.cells.selection import Selection
from suites.checks import register
from suites.validate.finding import cell_of, key_text


def give_cells(metafunc: pytest.Metafunc) -> None:
    """Parametrizes the test of a check by the cells of the check."""
    check = register.check_of_id(metafunc.definition.nodeid)
    assert check is not None, "a test in this folder needs the decorator @check"
    metafunc.parametrize("case", check.cells.chosen(Selection.of(metafunc.config.option, "kb_")))


def arrange(
    items: list[pytest.Item], *, done: Path | None, is_recorded: bool, part: tuple[int, int] | None = None
) -> list[pytest.Item]:
    """Orders the items of checks by kernel; other items keep their positions.

    The checks of one kernel then follow each other, so one worker compiles it once.

    Args:
        items: All items of the session; changed in place.
        done: A file that lists the keys of recorded cells.
        is_recorded: Whether the session is recorded; then the placeholder of a check without a cell is dropped.
        part: The part of the checks of each kernel, see :func:`suites.cells.parts.share`.

    Returns:
        The items that were dropped.
    """
    keys = set(json.loads(done.read_text(encoding="utf-8"))) if done else set()
    own = {Path(register.__file__).parent}
    cases = {item: case for item in items if item.path.parent in own and (case := case_of(item)) is not None}
    dropped = [item for item in items if is_recorded and item.path.parent in own and item.name.endswith("[NOTSET]")]
    groups = {item: (*_kernel(case), getattr(item, "originalname", "")) for item, case in cases.items()}
    chosen = share(Counter(groups.values()), part)
    for item, case in cases.items():
        check = register.check_of_id(item.nodeid)
        assert check is not None  # a test that is not registered has no cells
        item.extra_keyword_matches.add(check.name)  # -k vmap chooses the checks of this name
        if groups[item] not in chosen or (keys and key_text(cell_of(case, check)) in keys):
            dropped.append(item)
    left_out = set(dropped)
    items[:] = [item for item in items if item not in left_out]
    positions = [position for position, item in enumerate(items) if item in cases]
    ordered = sorted((items[position] for position in positions), key=lambda item: _kernel(cases[item]))
    for position, item in zip(positions, ordered, strict=True):
        items[position] = item
    return dropped


def checked_groups(selection: Selection) -> dict[tuple[str, ...], list[Cell]]:
    """Returns the cells of a selection by the groups that a part does not split: the cells of a kernel in one check."""
    groups: dict[tuple[str, ...], list[Cell]] = {}
    for check in register.checks():
        for case in register.cells_of(check, selection):
            groups.setdefault((*_kernel(case), check.function), []).append(cell_of(case, check))
    return groups


def case_of(item: pytest.Item) -> Case | None:
    """Returns the cell that a check runs on; None for an item that is no check."""
    callspec = getattr(item, "callspec", None)
    case = callspec and callspec.params.get("case")
    return case if isinstance(case, Case) else None


def _kernel(case: Case) -> tuple[str, str, str]:
    return case.operator.name, case.backend.id, case.dtype
