"""Splits cells into even parts, for several machines that run one suite (``--part 3/8``)."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import TypeVar

Group = TypeVar("Group", bound=Hashable)


def part_numbers(weights: Mapping[Group, float], count: int) -> dict[Group, int]:
    """Returns the number of the part, from 1 to `count`, that each group is in; it is the same on every machine.

    The groups are taken in the order of their weight, the heaviest first. Each goes to the part with the least weight.

    Args:
        weights: The work of each group, such as its number of cells. Groups must be sortable.
        count: The number of parts.
    """
    loads = [0.0] * count
    numbers = {}
    for group in sorted(weights, key=lambda group: (-weights[group], group)):
        lightest = loads.index(min(loads))
        loads[lightest] += weights[group]
        numbers[group] = lightest + 1
    return numbers


def share(weights: Mapping[Group, float], part: tuple[int, int] | None) -> set[Group]:
    """Returns the groups of a part, given as its number and the number of parts; all groups for None."""
    if part is None:
        return set(weights)
    number, count = part
    return {group for group, own in part_numbers(weights, count).items() if own == number}
