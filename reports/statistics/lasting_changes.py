"""Finds the commits since which a cell is slower or faster, in the times of many runs.

A gate compares two runs, and sees 20 % at once. Ten changes of 2 % are seen here: many runs stand on each side.
"""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

LEAST_RUNS = 3
"""Runs before and after a change, at least: a change that one run shows may be that run's machine."""

FALSE_ALARMS = 0.01
"""The share of pages, of cells that never changed, that name a change."""

_OF_STEPS = 1.4826 / math.sqrt(2)
"""Turns the median size of a step from one run to the next into a standard deviation of a run."""


@dataclass(frozen=True, slots=True)
class LastingChange:
    """A change that stayed.

    Attributes:
        index: The first run after it.
        ratio: The typical time after it, up to the next change, divided by that before it.
    """

    index: int
    ratio: float


def lasting_changes(times: Sequence[float], smallest: float, cells: int = 1) -> list[LastingChange]:
    """Returns the changes of a cell in the order of its runs, by binary segmentation.

    The best split of the runs is the one whose two means explain most of the variance. It is a change if the medians of
    both sides differ by `smallest`, and Student's t, corrected for the number of splits and of cells, says that noise
    does not. The noise is that from one run to the next, which no change inflates. Then both sides are searched.

    Args:
        times: The time in each run, the oldest first.
        smallest: The smallest change worth a name, as a share: 0.05 is 5 %.
        cells: The number of cells of the page.
    """
    logarithms = [math.log(time) for time in times]
    edges = [0, *_splits(logarithms, 0, FALSE_ALARMS / cells, math.log1p(smallest)), len(times)]
    middles = [statistics.median(logarithms[low:high]) for low, high in pairwise(edges)]
    return [
        LastingChange(index, math.exp(after - before))
        for index, (before, after) in zip(edges[1:-1], pairwise(middles), strict=True)
    ]


def _splits(values: Sequence[float], first: int, alarms: float, smallest: float) -> list[int]:
    """Returns the places of the changes in a part of the runs, of which the first has the number ``first``."""
    if len(values) < 2 * LEAST_RUNS:
        return []
    best = max(range(1, len(values)), key=lambda place: _gain(values, place))
    if best < LEAST_RUNS:  # what differs are the first runs, or the last ones: too few to know
        return _splits(values[best:], first + best, alarms, smallest)
    if len(values) - best < LEAST_RUNS:
        return _splits(values[:best], first, alarms, smallest)
    before, after = values[:best], values[best:]
    steps = [abs(later - earlier) for earlier, later in pairwise(values)]
    noise = max(_OF_STEPS * statistics.median(steps), 1e-6)
    error = noise * math.sqrt(1 / len(before) + 1 / len(after))
    shift = abs(statistics.fmean(after) - statistics.fmean(before))
    from scipy.special import stdtr

    if 2 * stdtr(len(values) / 2, -shift / error) * len(values) > alarms:
        return []
    if abs(statistics.median(after) - statistics.median(before)) < smallest:
        return []
    return [
        *_splits(before, first, alarms, smallest), first + best, *_splits(after, first + best, alarms, smallest)
    ]  # fmt: skip


def _gain(values: Sequence[float], place: int) -> float:
    """Returns the variance that a split explains, times the number of values."""
    shift = statistics.fmean(values[:place]) - statistics.fmean(values[place:])
    return shift * shift * place * (len(values) - place)
