"""Groups the cells that differ in their backend only: they are timed together, and compared with each other."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from reports import Cell
from reports.records.cell import CellKey


def group_cells(cells: Sequence[Cell]) -> list[list[Cell]]:
    """Returns the groups, in the order of their first cells."""
    groups: dict[CellKey, list[Cell]] = {}
    for cell in cells:
        groups.setdefault(msgspec.structs.replace(cell, backend="").key, []).append(cell)
    return list(groups.values())


def chunks(groups: Sequence[Sequence[Cell]], most: int) -> list[list[Sequence[Cell]]]:
    """Splits the groups into chunks of at most ``most`` cells, without splitting a group.

    Each process holds the compiled programs of one chunk at a time.
    """
    split: list[list[Sequence[Cell]]] = [[]]
    for group in groups:
        if split[-1] and sum(map(len, split[-1])) + len(group) > most:
            split.append([])
        split[-1].append(group)
    return [chunk for chunk in split if chunk]
