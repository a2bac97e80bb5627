"""Computes the ratio of the times of two cells, with an interval across processes."""

import functools
import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

LEAST = 3
"""The least number of processes, or of pairs, for an interval. That of two would be 13 times their difference."""

CONFIDENCE = 0.95


@dataclass(frozen=True, slots=True)
class Ratio:
    """The time of one cell divided by the time of another.

    The value is the quotient of the two times as tables print them, each the median over the processes: one disturbed
    process hardly changes it. The interval is Student's t on the logarithms of the ratios in each process, which a
    disturbed process widens: with 3 to 5 processes there is no 95 % interval by ranks. It always includes the value.

    Attributes:
        value: The ratio.
        low: Lower end of the 95 % interval; None with fewer than three processes.
        high: Upper end; None with fewer than three processes.
        paired: The ratio in each process; None if the two were measured in different processes.
    """

    value: float
    low: float | None = None
    high: float | None = None
    paired: tuple[float, ...] | None = None

    @property
    def is_above(self) -> bool:
        """Whether the whole interval lies above 1."""
        return self.low is not None and self.low > 1

    def is_tie(self, smallest: float) -> bool:
        """Whether the two cannot be told apart.

        That is so if there is no interval, if the interval includes 1, or if the ratio is nearer to 1 than the
        `smallest` effect, a share such as 0.02.
        """
        if self.low is None or self.high is None:
            return True
        return self.low <= 1 <= self.high or abs(math.log(self.value)) < math.log1p(smallest)


def ratio_of(ours: Sequence[float], theirs: Sequence[float]) -> Ratio:
    """Returns the ratio of two cells.

    If both have the same number of processes, entry i of both is the same process, and the effects of a process on
    both cells cancel in their ratio. If the numbers differ, the run was resumed, or noise was larger than the time of a
    cell in some process: then the ratio has no interval.

    Args:
        ours: The time of the first cell in each process, above zero, at least one.
        theirs: The time of the second cell in each process.
    """
    value, count = statistics.median(ours) / statistics.median(theirs), len(ours)
    if count != len(theirs):
        return Ratio(value)
    paired = tuple(one / other for one, other in zip(ours, theirs, strict=True))
    if count < LEAST:
        return Ratio(value, paired=paired)
    logarithms = [math.log(each) for each in paired]
    middle = math.fsum(logarithms) / count
    spread = math.sqrt(math.fsum((each - middle) ** 2 for each in logarithms) / (count - 1))
    half = t_quantile(count - 1) * spread / math.sqrt(count)
    return Ratio(value, min(math.exp(middle - half), value), max(math.exp(middle + half), value), paired)


def beats_from(ratios: Mapping[int, Ratio], smallest: float) -> int | None:
    """Returns the size from which on a kernel beats another one: it is faster there and at all larger sizes.

    It is faster at a size if the ratio of its time to the other's is below 1 and no tie (`Ratio.is_tie`). None if it is
    not faster at the largest size.

    Args:
        ratios: The ratio at each size that was timed.
        smallest: The smallest effect worth a verdict, as a share.
    """
    least = None
    for size in sorted(ratios, reverse=True):
        if ratios[size].value >= 1 or ratios[size].is_tie(smallest):
            break
        least = size
    return least


@functools.cache
def t_quantile(freedom: float) -> float:
    """Returns the two-sided 95 % quantile of Student's t for a number of degrees of freedom above zero."""
    from scipy.special import stdtrit

    return float(stdtrit(freedom, (1 + CONFIDENCE) / 2))
