"""Finds the fastest of several backends, and the backends that cannot be told apart from it."""

import statistics
from collections.abc import Sequence

from reports.statistics.intervals import LEAST, ratio_of


def fastest(times: Sequence[Sequence[float]], smallest: float) -> list[int]:
    """Returns the places of the fastest, and of all that are tied with it; the fastest comes first.

    Two are tied if the 95 % interval of their ratio includes 1, or if the ratio is nearer to 1 than the smallest
    effect. Nobody is the fastest where somebody was measured in fewer than three processes, since no interval exists
    then, or where there is only one backend.

    Args:
        times: For each backend, its time in each process; entry i of all is the same process.
        smallest: The smallest effect worth a verdict, as a share.
    """
    if len(times) < 2 or any(len(own) < LEAST for own in times):
        return []
    first = min(range(len(times)), key=lambda place: statistics.median(times[place]))
    others = [place for place in range(len(times)) if place != first]
    return [first, *(place for place in others if ratio_of(times[place], times[first]).is_tie(smallest))]
