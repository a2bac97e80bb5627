"""Computes the ratio of two cells that were timed in turn, and its spread."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

from reports.records.quantiles import quantile


@dataclass(frozen=True, slots=True)
class Spread:
    """Median, 20th percentile and 80th percentile of samples."""

    median: float
    p20: float
    p80: float

    @classmethod
    def of(cls, samples: Sequence[float]) -> Self:
        """Returns the spread of at least one sample."""
        return cls(*(quantile(samples, q) for q in (0.5, 0.2, 0.8)))


def round_ratios(samples: Sequence[float], reference: Sequence[float]) -> list[float]:
    """Returns the ratio of each sample to the reference's sample of the same round.

    Both sides of a ratio were taken at nearly the same time. So a slower machine in one round does not change it.

    Raises:
        ValueError: The two took part in different numbers of rounds.
    """
    return [ours / theirs for ours, theirs in zip(samples, reference, strict=True)]
