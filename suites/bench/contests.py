"""Groups cells into contests: the cells of a contest differ in their backend only, and compete with each other."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from reports import Cell
from reports.records.cell import CellKey


def contests(cells: Sequence[Cell]) -> list[list[Cell]]:
    """Returns the contests, in the order of their first cells."""
    found: dict[CellKey, list[Cell]] = {}
    for cell in cells:
        found.setdefault(msgspec.structs.replace(cell, backend="").key, []).append(cell)
    return list(found.values())


def portions(groups: Sequence[Sequence[Cell]], most: int) -> list[list[Sequence[Cell]]]:
    """Returns the contests in portions of at most so many cells; a contest stays whole.

    Each process holds the compiled programs of one portion at a time.
    """
    found: list[list[Sequence[Cell]]] = [[]]
    for group in groups:
        if found[-1] and sum(map(len, found[-1])) + len(group) > most:
            found.append([])
        found[-1].append(group)
    return [portion for portion in found if portion]
