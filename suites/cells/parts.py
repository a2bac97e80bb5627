"""Splits cells into even parts, for several machines that run one suite (``--part 3/8``)."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import TypeVar

Group = TypeVar("Group", bound=Hashable)


def share(weights: Mapping[Group, float], part: tuple[int, int] | None) -> set[Group]:
    """Returns the groups of one part. Each group is in exactly one, and the same on every machine.

    The heaviest group goes first, each to the part that has the least so far.

    Args:
        weights: The work of each group, such as its number of cells. Groups must sort.
        part: The number of the part, from 1, and the number of parts; None for all groups.
    """
    if part is None:
        return set(weights)
    number, count = part
    loads = [0.0] * count
    chosen = set()
    for group in sorted(weights, key=lambda group: (-weights[group], group)):
        place = loads.index(min(loads))
        loads[place] += weights[group]
        if place == number - 1:
            chosen.add(group)
    return chosen
