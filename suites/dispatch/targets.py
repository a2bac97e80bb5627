"""Performance targets: the samples of two paths in, a ratio with a verdict out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from reports.records.quantiles import quantile


class Verdict(StrEnum):
    """How a target came out."""

    MET = "met"
    MISSED = "missed"
    NOT_MEASURED = "not measured"


@dataclass(frozen=True)
class Spread:
    """Median and 20th and 80th percentile of samples."""

    median: float
    p20: float
    p80: float

    @classmethod
    def of(cls, samples: Sequence[float]) -> Spread:
        """The spread of at least one sample."""
        return cls(*(quantile(samples, q) for q in (0.5, 0.2, 0.8)))


def ratios(samples: Sequence[float], reference: Sequence[float]) -> list[float]:
    """Sample by sample, so that both sides of each ratio were taken in the same round.

    Raises:
        ValueError: The two did not take part in the same number of rounds.
    """
    return [ours / theirs for ours, theirs in zip(samples, reference, strict=True)]


@dataclass(frozen=True)
class Target:
    """At most ``limit`` times the cost of a reference path, as the median of the rounds' ratios."""

    mode: str
    path: str
    reference: str
    limit: float

    def __str__(self) -> str:
        if self.limit >= 0.1:
            return f"{self.mode}: {self.path} <= {self.limit:.2f}x {self.reference}"
        return f"{self.mode}: {self.path} at least {1 / self.limit:.0f}x below {self.reference}"

    def verdict(self, ratio: Spread | None) -> Verdict:
        """The verdict on a measured ratio of ``path`` to ``reference``; None if one of them was not measured."""
        if ratio is None:
            return Verdict.NOT_MEASURED
        return Verdict.MET if ratio.median <= self.limit else Verdict.MISSED
