"""Estimates how fast a quantity grows, such as memory with the number of calls, with an interval.

The estimate is the median of the slopes of all pairs of samples. One step, such as an allocator that takes another
arena, leaves it as it is; a steady leak does not. Sources: Theil, "A rank-invariant method of linear and polynomial
regression analysis", 1950; Sen, "Estimates of the regression coefficient based on Kendall's tau", 1968.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from reports.statistics.intervals import CONFIDENCE


@dataclass(frozen=True)
class Growth:
    """A slope with its interval.

    Attributes:
        slope: Growth for each unit of the counts.
        low: Lower end of the interval.
        high: Upper end of the interval.
    """

    slope: float
    low: float
    high: float


def growth(counts: Sequence[float], sizes: Sequence[float]) -> Growth:
    """Returns how much ``sizes`` grow for each unit of ``counts``, with the interval of 95%.

    Args:
        counts: Rising numbers, at least two.
        sizes: One for each of the counts.

    Two samples have one slope, which is then also the interval.
    """
    if len(counts) == 2:
        slope = (sizes[1] - sizes[0]) / (counts[1] - counts[0])
        return Growth(slope, slope, slope)
    from scipy.stats import theilslopes

    found = theilslopes(list(map(float, sizes)), list(map(float, counts)), alpha=CONFIDENCE)
    return Growth(float(found.slope), float(found.low_slope), float(found.high_slope))
