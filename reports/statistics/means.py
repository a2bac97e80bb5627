"""Computes geometric means of ratios, with an interval across processes."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from reports.statistics.intervals import LEAST, t_quantile


@dataclass(frozen=True, slots=True)
class GeometricMean:
    """A geometric mean of ratios.

    Attributes:
        mean: The mean; None without any ratio.
        count: The number of ratios.
        losses: The number of ratios above 1.
        low: Lower end of the 95 % interval of the mean; None where there is none.
        high: Upper end.
    """

    mean: float | None
    count: int
    losses: int
    low: float | None = None
    high: float | None = None


def geometric_mean(ratios: Iterable[float | None]) -> GeometricMean:
    """Returns the geometric mean of the ratios. It ignores None and NaN."""
    known = [ratio for ratio in ratios if ratio is not None and not math.isnan(ratio)]
    mean = math.exp(math.fsum(math.log(ratio) for ratio in known) / len(known)) if known else None
    return GeometricMean(mean, len(known), sum(ratio > 1 for ratio in known))


def mean_across_processes(cells: Sequence[Sequence[float]]) -> GeometricMean:
    """Returns the geometric mean of the ratios of cells, with an interval across processes.

    In each process, the cells have one geometric mean. The interval is Student's t of these means, on logarithms: what
    a process does to all of its cells, such as a slow clock, counts as one fact and not as one per cell. Cells of
    different numbers of processes were measured in different sessions. Their means are independent, and the variance
    of the whole mean is the sum of the variances of these means, each with the square of its share of the cells; the
    smallest session decides the degrees of freedom. With a session of fewer than three processes there is no interval.

    Args:
        cells: For each cell, its ratio in each process.
    """
    sessions: dict[int, list[Sequence[float]]] = {}
    for ratios in cells:
        sessions.setdefault(len(ratios), []).append(ratios)
    centres = [math.fsum(map(math.log, ratios)) / len(ratios) for ratios in cells]
    if not centres:
        return GeometricMean(None, 0, 0)
    centre = math.fsum(centres) / len(cells)
    found = GeometricMean(math.exp(centre), len(cells), sum(each > 0 for each in centres))
    if min(sessions) < LEAST:
        return found
    variance = 0.0
    for count, own in sessions.items():
        means = [math.fsum(math.log(ratios[process]) for ratios in own) / len(own) for process in range(count)]
        middle = math.fsum(means) / count
        of_mean = math.fsum((each - middle) ** 2 for each in means) / (count - 1) / count
        variance += (len(own) / len(cells)) ** 2 * of_mean
    half = t_quantile(min(sessions) - 1) * math.sqrt(variance)
    return GeometricMean(
        found.mean, found.count, found.losses, low=math.exp(centre - half), high=math.exp(centre + half)
    )
