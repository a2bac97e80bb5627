"""Computes the geometric mean of the ratios of several cells, with an interval across processes."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from reports.statistics.intervals import LEAST, Ratio, t_quantile


@dataclass(frozen=True, slots=True)
class GeometricMean:
    """A geometric mean of ratios.

    Attributes:
        mean: The mean; None without any ratio.
        count: The number of ratios.
        low: Lower end of the 95 % interval of the mean; None where there is none.
        high: Upper end.
    """

    mean: float | None
    count: int
    low: float | None = None
    high: float | None = None


def geometric_mean(ratios: Sequence[Ratio], sessions: Sequence[str] | None = None) -> GeometricMean:
    """Returns the geometric mean of the ratios of cells. The mean of one cell is that cell.

    In each process, the cells of a session have one geometric mean. The interval is Student's t of these means, on
    logarithms: an effect of a process on all of its cells, such as a slow clock, counts once and not for each cell.
    Sessions are independent, so the variance of the total mean is the sum of their variances, each with the square of
    its share of the cells; the smallest session decides the degrees of freedom. If a session has fewer than three
    processes, there is no interval.

    Args:
        ratios: The ratios of the cells.
        sessions: For each of them, the session that measured it; one session by default.
    """
    if not ratios:
        return GeometricMean(None, 0)
    if not all(isinstance(one, Ratio) for one in ratios):
        raise TypeError(f"geometric_mean: got {list(ratios)[:3]!r}, expected the ratios of cells (CellRow.compared).")
    if len(ratios) == 1:
        return GeometricMean(ratios[0].value, 1, ratios[0].low, ratios[0].high)
    centre = math.fsum(math.log(one.value) for one in ratios) / len(ratios)
    parts: dict[tuple[str, int], list[tuple[float, ...]]] = {}
    for one, session in zip(ratios, sessions or [""] * len(ratios), strict=True):
        paired = one.paired or (one.value,)
        parts.setdefault((session, len(paired)), []).append(paired)
    fewest = min(count for _, count in parts)
    if fewest < LEAST:
        return GeometricMean(math.exp(centre), len(ratios))
    variance = 0.0
    for (_, count), own in parts.items():
        means = [math.fsum(math.log(paired[index]) for paired in own) / len(own) for index in range(count)]
        middle = math.fsum(means) / count
        of_mean = math.fsum((each - middle) ** 2 for each in means) / (count - 1) / count
        variance += (len(own) / len(ratios)) ** 2 * of_mean
    half = t_quantile(fewest - 1) * math.sqrt(variance)
    return GeometricMean(math.exp(centre), len(ratios), math.exp(centre - half), math.exp(centre + half))
