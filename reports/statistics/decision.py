"""Decides whether cells of two revisions differ: the rule behind SLOWER, FASTER, SAME and UNSURE.

A *pair* is a fresh process of base and one of head that were timed together. The state of the machine reaches both
alike, so it cancels in their ratio. All statistics are computed on logarithms of times.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reports.statistics.intervals import LEAST, t_quantile
from reports.statistics.verdict_codes import (
    FALSE_DISCOVERIES,
    LARGE,
    LARGE_APART,
    SMALLEST,
    SMALLEST_APART,
    Code,
    Verdict,
)

MANY = 6
"""The least number of pairs for a small difference: in fewer pairs, noise with two modes looks like one."""

SPREADS = 3
"""The smallest difference worth a verdict, in standard errors of the cell."""

_CLEAR = {3: 0.5}
_CLEAR_OTHERS = 0.3
"""If every pair shows a difference of this share, no test is needed: by simulation, equal revisions never do."""

_MIDDLE = 0.4
"""If at least `MANY` pairs all agree in sign, a median difference of this share needs no test either."""

_TINY = 1e-9
"""The least spread of a cell, as a logarithm: equal times would otherwise have a spread of zero."""

Numbers = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Times:
    """The times of one cell in base and in head, in one unit, by the number of the pair.

    Attributes:
        base: The time of a call in base, for each pair.
        head: The time of a call in head. A number that only one of the two has does not count.
        platform: `cpu` or `cuda`, which has its own limits.
    """

    base: Mapping[int, float]
    head: Mapping[int, float]
    platform: str = "cpu"


@dataclass(frozen=True, slots=True)
class Decision:
    """The decision on one cell.

    Attributes:
        verdict: SLOWER, FASTER, SAME or UNSURE.
        code: The reason.
        ratio: Time of head divided by time of base: the geometric mean over the pairs. None without a pair.
        low: Lower end of its 95 % interval (Student's t); None with fewer than three pairs.
        high: Upper end; None with fewer than three pairs.
        p: The p-value for the direction of the ratio, adjusted for the number of cells; None with fewer than three
            pairs.
        pairs: The number of pairs; for two sessions, the smaller number of processes.
        base_ns: The geometric mean of the times of base that were compared; None without a pair.
        head_ns: The same for head: divided by `base_ns` it is the ratio.
    """

    verdict: Verdict
    code: Code
    ratio: float | None = None
    low: float | None = None
    high: float | None = None
    p: float | None = None
    pairs: int = 0
    base_ns: float | None = None
    head_ns: float | None = None


def decide(
    cells: Sequence[Times],
    *,
    smallest: Mapping[str, float] | None = None,
    large: Mapping[str, float] | None = None,
    q: float = FALSE_DISCOVERIES,
    sessions: bool = False,
) -> list[Decision]:
    """Returns a decision for each cell of one comparison.

    - SLOWER: the ratio lies beyond the smallest effect worth a verdict, and Student's t confirms it after the control
      of false discoveries over all cells (Benjamini and Hochberg, one-sided). With fewer than six pairs the ratio must
      lie beyond the large effect. Or each pair alone shows a clear difference: 30 %, with three pairs 50 %. Or at least
      six pairs agree in sign, and their median difference is 40 %. FASTER is the same in the other direction.
    - SAME: the 95 % interval lies within the smallest effect worth a verdict, and within the large one. For two
      sessions both limits are halved, because a change of the machine may hide as much.
    - UNSURE: everything else, and all cells with fewer than three pairs.

    The smallest effect worth a verdict is the one of the platform, or three standard errors of the cell, whichever is
    larger. If base and head are swapped, SLOWER and FASTER are swapped.

    Args:
        cells: All cells that can fail, without the reference: their number counts for the false discoveries.
        smallest: By platform, the smallest effect worth a verdict, as a share: 0.05 is 5 %.
        large: By platform, the effect that must not stay undecided, as a share.
        q: The share of false discoveries, between 0 and 1.
        sessions: Whether base and head were timed in two sessions, one after the other. Then there are no pairs. Their
            processes are compared as two samples (Welch), with wider limits: only large differences are decided.

    Raises:
        ValueError: `q` is not between 0 and 1.
    """
    if not 0 < q < 1:
        raise ValueError(f"q={q!r}: expected a share between 0 and 1, such as {FALSE_DISCOVERIES}.")
    least_effects, large_effects = limits_in_force(smallest, large, sessions=sessions)
    evidence = [_Evidence(cell, sessions) for cell in cells]
    decidable = [one for one in evidence if one.pairs >= LEAST]
    for direction in ("slower", "faster"):
        for one, p in zip(decidable, _adjusted([getattr(one, direction) for one in decidable]), strict=True):
            setattr(one, direction, p)
    return [
        replace(
            _decision(one, least_effects[cell.platform], large_effects[cell.platform], q),
            base_ns=one.middles and _ratio(one.middles[0]),
            head_ns=one.middles and _ratio(one.middles[1]),
        )
        for cell, one in zip(cells, evidence, strict=True)
    ]


def limits_in_force(
    smallest: Mapping[str, float] | None = None, large: Mapping[str, float] | None = None, *, sessions: bool = False
) -> tuple[dict[str, float], dict[str, float]]:
    """Returns the smallest and the large effect by platform: the arguments, else the defaults; for sessions no less."""
    chosen = {**SMALLEST, **(smallest or {})}, {**LARGE, **(large or {})}
    if not sessions:
        return chosen
    apart = SMALLEST_APART, LARGE_APART
    wide = [{name: max(own[name], least[name]) for name in own} for own, least in zip(chosen, apart, strict=True)]
    return wide[0], wide[1]


class _Evidence:
    """The statistics of one cell, on logarithms of ratios."""

    def __init__(self, cell: Times, sessions: bool) -> None:
        numbers = sorted(cell.base) if sessions else sorted(cell.base.keys() & cell.head.keys())
        base = np.log([cell.base[number] for number in numbers])
        head = np.log([*cell.head.values()] if sessions else [cell.head[number] for number in numbers])
        self.pairs, self.sessions = min(len(base), len(head)), sessions
        self.middles: tuple[float, float] | None = None
        if not self.pairs:
            return
        differences = (head[:, None] - base[None, :]).ravel() if sessions else head - base
        self.least, self.most, middle = differences.min(), differences.max(), float(np.median(differences))
        agree = not sessions and self.pairs >= MANY and self.least * self.most > 0
        self.agreed = middle if agree and abs(middle) >= np.log1p(_MIDDLE) else 0.0
        self.middles = float(base.mean()), float(head.mean())
        self.shift = self.middles[1] - self.middles[0]
        if self.pairs < LEAST:
            return
        from scipy import special

        if sessions:
            parts = [max(float(each.var(ddof=1)), _TINY**2) / len(each) for each in (base, head)]
            # Welch and Satterthwaite.
            freedom = sum(parts) ** 2 / (parts[0] ** 2 / (len(base) - 1) + parts[1] ** 2 / (len(head) - 1))
        else:
            parts = [max(float(differences.var(ddof=1)), _TINY**2) / self.pairs]
            freedom = self.pairs - 1
        self.spread = sum(parts) ** 0.5
        half = t_quantile(freedom) * self.spread
        self.low, self.high = self.shift - half, self.shift + half
        self.slower = float(special.stdtr(freedom, -self.shift / self.spread))
        self.faster = float(special.stdtr(freedom, self.shift / self.spread))


def _decision(one: _Evidence, smallest: float, large: float, q: float) -> Decision:
    if not one.pairs:
        return Decision(Verdict.UNSURE, Code.FEW_PROCESSES)
    if one.pairs < LEAST:
        return Decision(Verdict.UNSURE, Code.FEW_PROCESSES, _ratio(one.shift), pairs=one.pairs)
    worth = max(np.log1p(smallest), SPREADS * one.spread)
    much = max(np.log1p(large), np.log1p(smallest))
    needed = worth if one.pairs >= MANY else max(worth, much)
    clear = np.log1p(_CLEAR.get(one.pairs, _CLEAR_OTHERS))
    near = min(worth, much) / (2 if one.sessions else 1)
    if one.least >= clear or one.agreed > 0 or (one.slower <= q and one.shift >= needed):
        verdict, code = Verdict.SLOWER, Code.BEYOND
    elif one.most <= -clear or one.agreed < 0 or (one.faster <= q and -one.shift >= needed):
        verdict, code = Verdict.FASTER, Code.BEYOND
    elif -near < one.low and one.high < near:
        verdict, code = Verdict.SAME, Code.WITHIN
    else:
        bounded = -much < one.low and one.high < much
        verdict, code = Verdict.UNSURE, Code.SMALL if bounded else Code.NOISE
    return Decision(
        verdict, code, _ratio(one.shift), _ratio(one.low), _ratio(one.high),
        p=one.slower if one.shift >= 0 else one.faster, pairs=one.pairs,
    )  # fmt: skip


def _ratio(logarithm: float) -> float:
    return float(np.exp(min(logarithm, 700.0)))


def _adjusted(p: Sequence[float]) -> list[float]:
    """Returns p-values adjusted by Benjamini and Hochberg."""
    if not p:
        return []
    from scipy.stats import false_discovery_control

    adjusted: list[Any] = false_discovery_control(p).tolist()
    return adjusted
