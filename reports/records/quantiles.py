"""Computes quantiles of samples."""

import math
import statistics
from collections.abc import Sequence


def quantile(samples: Sequence[float], q: float) -> float:
    """Returns quantile `q` in [0, 1], linear between neighbours: type 7 of Hyndman and Fan, the default of NumPy."""
    if len(samples) == 1:
        return samples[0]
    ordered = sorted(samples)
    if q == 0.5:  # the usual case
        middle = len(ordered) // 2
        return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2
    position = q * (len(ordered) - 1)
    below = math.floor(position)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (position - below) * (ordered[above] - ordered[below])


def grouped_median(samples: Sequence[float], tick: float) -> float:
    """Returns the median of samples from a clock that counts ticks, interpolated within a tick.

    A plain median of such samples is a whole number of ticks, so a small change may move it by a whole tick or not at
    all. Source: :func:`statistics.median_grouped`.

    Args:
        samples: The samples, each one a number of ticks, up to rounding.
        tick: Length of a tick, in the unit of the samples.
    """
    return statistics.median_grouped([tick * round(sample / tick) for sample in samples], interval=tick)
