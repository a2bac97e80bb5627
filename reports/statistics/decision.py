"""Decides whether cells of two revisions differ: the rule behind SLOWER, FASTER, SAME and UNSURE.

A *block* is one turn of a fresh process of base and one of head, side by side. What the machine does to a block it does
to both, so their ratio says more than two heaps of times. Everything is computed on logarithms of times.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reports.statistics.verdict_codes import (
    FALSE_DISCOVERIES,
    LARGE,
    LARGE_APART,
    SMALLEST,
    SMALLEST_APART,
    Code,
    Verdict,
)

LEAST = 3
"""Blocks from which on a cell has an interval and can be decided."""

MANY = 6
"""Blocks from which on a small difference can be decided: noise with two modes looks like one in fewer."""

SPREADS = 3
"""A difference is worth a verdict from this many spreads of the cell on."""

CONFIDENCE = 0.95

_CLEAR = {3: 0.5}
_CLEAR_OTHERS = 0.3
"""Where every block alone shows a difference of this share, no test has to: by simulation, equal revisions do not."""

_MIDDLE = 0.4
"""From `MANY` blocks on that all agree in sign, a median difference of this share needs no test either."""

_TINY = 1e-9
"""The least spread of a cell, as a logarithm: equal times would otherwise have a spread of zero."""

Numbers = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Times:
    """The times of one cell on both sides, in one unit, by block.

    Attributes:
        base: The time of a call in each block.
        head: Likewise. A block that only one side has does not count.
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
        code: Why.
        ratio: Time of head divided by time of base: the geometric mean over the blocks. None without a block.
        low: Lower end of its 95 % interval (Student's t); None with fewer than three blocks.
        high: Upper end.
        p: The p-value of the direction in which the cell lies, adjusted for the number of cells; None likewise.
        blocks: Blocks that counted; of two sessions, the processes of the side that has fewer.
    """

    verdict: Verdict
    code: Code
    ratio: float | None = None
    low: float | None = None
    high: float | None = None
    p: float | None = None
    blocks: int = 0


def decide(
    cells: Sequence[Times],
    *,
    smallest: Mapping[str, float] | None = None,
    large: Mapping[str, float] | None = None,
    q: float = FALSE_DISCOVERIES,
    sessions: bool = False,
) -> list[Decision]:
    """Returns a decision for each cell of one comparison.

    - SLOWER: the ratio lies beyond the smallest effect worth a verdict, and Student's t says so after the control of
      false discoveries over all cells (Benjamini and Hochberg, one-sided). With fewer than six blocks the ratio must
      lie beyond the large effect. Or each block alone shows a clear difference: 30 %, with three blocks 50 %. Or six
      blocks and more agree in sign, and their median shows 40 %. FASTER likewise.
    - SAME: the whole interval lies within the effect worth a verdict, and within the large one; of two sessions, within
      half of the former, because a change of the machine may hide as much.
    - UNSURE: everything else, and all cells with fewer than three blocks.

    The smallest effect worth a verdict is the one of the platform, or three standard errors of the cell, whichever is
    larger. The verdicts on two sides are mirrored when the sides are swapped.

    Args:
        cells: All cells that can fail: their number counts. The reference is none of them.
        smallest: By platform, the smallest effect worth a verdict, as a share: 0.05 is 5 %.
        large: By platform, the effect that must not stay unseen, likewise.
        q: The share of false discoveries, between 0 and 1.
        sessions: Whether the sides were timed one after the other. Then no block has both, their processes are compared
            as two heaps (Welch), and the limits are wider: only large differences are decided.

    Raises:
        ValueError: `q` is not between 0 and 1.
    """
    if not 0 < q < 1:
        raise ValueError(f"q={q!r}: expected a share between 0 and 1, such as {FALSE_DISCOVERIES}.")
    least_effects, large_effects = limits_in_force(smallest, large, sessions=sessions)
    evidence = [_Evidence(cell, sessions) for cell in cells]
    known = [one for one in evidence if one.blocks >= LEAST]
    for direction in ("slower", "faster"):
        for one, p in zip(known, _adjusted([getattr(one, direction) for one in known]), strict=True):
            setattr(one, direction, p)
    return [
        _decision(one, least_effects[cell.platform], large_effects[cell.platform], q)
        for cell, one in zip(cells, evidence, strict=True)
    ]


def limits_in_force(
    smallest: Mapping[str, float] | None = None, large: Mapping[str, float] | None = None, *, sessions: bool = False
) -> tuple[dict[str, float], dict[str, float]]:
    """Returns the smallest and the large effect by platform: those given, else the defaults; of sessions no less."""
    given = {**SMALLEST, **(smallest or {})}, {**LARGE, **(large or {})}
    if not sessions:
        return given
    apart = SMALLEST_APART, LARGE_APART
    found = [{name: max(own[name], least[name]) for name in own} for own, least in zip(given, apart, strict=True)]
    return found[0], found[1]


class _Evidence:
    """What the times of one cell say, before any decision: logarithms of ratios."""

    def __init__(self, cell: Times, sessions: bool) -> None:
        met = sorted(cell.base) if sessions else sorted(cell.base.keys() & cell.head.keys())
        base = np.log([cell.base[block] for block in met])
        head = np.log([*cell.head.values()] if sessions else [cell.head[block] for block in met])
        self.blocks, self.sessions = min(len(base), len(head)), sessions
        if not self.blocks:
            return
        differences = (head[:, None] - base[None, :]).ravel() if sessions else head - base
        self.least, self.most, middle = differences.min(), differences.max(), float(np.median(differences))
        agree = not sessions and self.blocks >= MANY and self.least * self.most > 0
        self.agreed = middle if agree and abs(middle) >= np.log1p(_MIDDLE) else 0.0
        self.shift = float(head.mean() - base.mean())
        if self.blocks < LEAST:
            return
        from scipy import special

        if sessions:
            parts = [max(float(side.var(ddof=1)), _TINY**2) / len(side) for side in (base, head)]
            # Welch and Satterthwaite.
            freedom = sum(parts) ** 2 / (parts[0] ** 2 / (len(base) - 1) + parts[1] ** 2 / (len(head) - 1))
        else:
            parts = [max(float(differences.var(ddof=1)), _TINY**2) / self.blocks]
            freedom = self.blocks - 1
        self.spread = sum(parts) ** 0.5
        half = float(special.stdtrit(freedom, (1 + CONFIDENCE) / 2)) * self.spread
        self.low, self.high = self.shift - half, self.shift + half
        self.slower = float(special.stdtr(freedom, -self.shift / self.spread))
        self.faster = float(special.stdtr(freedom, self.shift / self.spread))


def _decision(one: _Evidence, smallest: float, large: float, q: float) -> Decision:
    if not one.blocks:
        return Decision(Verdict.UNSURE, Code.FEW_PROCESSES)
    if one.blocks < LEAST:
        return Decision(Verdict.UNSURE, Code.FEW_PROCESSES, _ratio(one.shift), blocks=one.blocks)
    worth = max(np.log1p(smallest), SPREADS * one.spread)
    much = max(np.log1p(large), np.log1p(smallest))
    needed = worth if one.blocks >= MANY else max(worth, much)
    clear = np.log1p(_CLEAR.get(one.blocks, _CLEAR_OTHERS))
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
        p=one.slower if one.shift >= 0 else one.faster, blocks=one.blocks,
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
