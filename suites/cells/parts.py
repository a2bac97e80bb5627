"""Splits cells into even parts, for several machines that run one suite (``--part 3/8``)."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import TypeVar

Group = TypeVar("Group", bound=Hashable)


def share(weights: Mapping[Group, float], part: tuple[int, int] | None) -> set[Group]:
    """Returns the groups of one part. Each group is in exactly one part, which is the same on every machine.

    The groups are taken in the order of their weight, the heaviest first. Each goes to the part with the least weight.

    Args:
        weights: The work of each group, such as its number of cells. Groups must be sortable.
        part: The number of the part, from 1, and the number of parts; None for all groups.
    """
    if part is None:
        return set(weights)
    number, count = part
    loads = [0.0] * count
    chosen = set()
    for group in sorted(weights, key=lambda group: (-weights[group], group)):
        lightest = loads.index(min(loads))
        loads[lightest] += weights[group]
        if lightest == number - 1:
            chosen.add(group)
    return chosen
