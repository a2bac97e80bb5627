"""Samples of one cell in, their median, quantiles and relative error out."""

import math
from collections.abc import Sequence

_Z95 = 1.959964
"""Two-sided 95 % quantile of the normal distribution."""

MIN_SAMPLES = 6
"""With fewer samples no interval between two of them holds the median with 95 % (1 - 2 / 2**5 < 0.95)."""


def quantile(samples: Sequence[float], q: float) -> float:
    """Returns quantile `q` in [0, 1], linear between neighbours (NumPy's default, Hyndman and Fan's 7)."""
    ordered = sorted(samples)
    position = q * (len(ordered) - 1)
    below = math.floor(position)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (position - below) * (ordered[above] - ordered[below])


def median_relative_error(samples: Sequence[float]) -> float:
    """Returns half the width of the median's 95 % confidence interval, divided by the median.

    The interval lies between two order statistics, so no distribution is assumed and outliers weigh nothing:
    of n sorted samples, those of rank floor((n - z sqrt(n)) / 2) and 1 + ceil((n + z sqrt(n)) / 2)
    (Hoefler and Belli, "Scientific Benchmarking of Parallel Computing Systems", SC 2015, section 3.1.3).
    Fewer than `MIN_SAMPLES` samples have no such interval: the answer is infinity.
    """
    count = len(samples)
    if count < MIN_SAMPLES:
        return math.inf
    ordered = sorted(samples)
    spread = _Z95 * math.sqrt(count)
    low_rank = max(1, math.floor((count - spread) / 2))
    high_rank = min(count, 1 + math.ceil((count + spread) / 2))
    return (ordered[high_rank - 1] - ordered[low_rank - 1]) / 2 / quantile(ordered, 0.5)
