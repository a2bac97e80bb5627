"""Computes quantiles of samples, and the relative error of their median."""

import math
import statistics
from collections.abc import Sequence

_Z95 = 1.959964
"""Two-sided 95 % quantile of the normal distribution."""

MIN_SAMPLES = 6
"""With five samples, even the interval from the least to the greatest is too short: 1 - 2 / 2**5 is below 95 %."""


def quantile(samples: Sequence[float], q: float) -> float:
    """Returns quantile `q` in [0, 1], linear between neighbours: type 7 of Hyndman and Fan, the default of NumPy."""
    ordered = sorted(samples)
    position = q * (len(ordered) - 1)
    below = math.floor(position)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (position - below) * (ordered[above] - ordered[below])


def grouped_median(samples: Sequence[float], tick: float) -> float:
    """Returns the median of samples from a clock that counts ticks: interpolated within the tick in which it lies.

    A plain median of such samples is a whole number of ticks, so a small change may move it by a whole tick or not at
    all. Source: :func:`statistics.median_grouped`.

    Args:
        samples: The samples, each one a number of ticks, up to rounding.
        tick: Length of a tick, in the unit of the samples.
    """
    return statistics.median_grouped([tick * round(sample / tick) for sample in samples], interval=tick)


def median_relative_error(samples: Sequence[float]) -> float:
    """Returns half the width of the median's 95 % confidence interval, divided by the median.

    The interval lies between two of the n sorted samples: the one of rank floor((n - z sqrt(n)) / 2) and the one of
    rank 1 + ceil((n + z sqrt(n)) / 2). So it assumes no distribution, and outliers have no weight. Source: Hoefler and
    Belli, "Scientific Benchmarking of Parallel Computing Systems", SC 2015, section 3.1.3. With fewer than
    `MIN_SAMPLES` samples there is no such interval, and the answer is infinity.
    """
    count = len(samples)
    if count < MIN_SAMPLES:
        return math.inf
    ordered = sorted(samples)
    spread = _Z95 * math.sqrt(count)
    low_rank = max(1, math.floor((count - spread) / 2))
    high_rank = min(count, 1 + math.ceil((count + spread) / 2))
    return (ordered[high_rank - 1] - ordered[low_rank - 1]) / 2 / quantile(ordered, 0.5)
