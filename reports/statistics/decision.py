"""Decides whether cells of two revisions differ: the rule behind SAME, FASTER, SLOWER and UNSURE."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from reports.statistics.noise import noise_floor
from reports.statistics.ranks import Numbers, least_processes, one_sided, shift, shift_interval, smallest_p
from reports.statistics.verdict_codes import Code, Verdict

FLOORS = 3
"""A difference is worth a verdict from this many noise floors on."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """What the processes of both sides say about cells, before any decision: one entry per cell.

    Attributes:
        shift: The logarithm of the ratio of head to base.
        low: The lower end of its 95 % interval; minus infinity with too few processes.
        high: The upper end.
        slower: The p-value that head is not slower.
        faster: The p-value that head is not faster.
        floor: The noise floor, as a logarithm.
        least: The smallest p-value that the numbers of processes allow.
    """

    shift: Numbers
    low: Numbers
    high: Numbers
    slower: Numbers
    faster: Numbers
    floor: Numbers
    least: Numbers

    @classmethod
    def of(cls, base: Numbers, head: Numbers) -> "Evidence":
        """Returns the evidence of logarithms of times: one row per cell, one column per process."""
        low, high = shift_interval(base, head)
        slower, faster = one_sided(base, head)
        least = np.full(len(base), smallest_p(base.shape[1], head.shape[1]))
        return cls(shift(base, head), low, high, slower, faster, noise_floor(base, head), least)

    @classmethod
    def gathered(cls, sides: Sequence[tuple[Sequence[float], Sequence[float]]]) -> "Evidence":
        """Returns the evidence of cells of any numbers of processes: for each, the logarithms of base and of head."""
        fields = [np.empty(len(sides)) for _ in cls.__dataclass_fields__]
        places: dict[tuple[int, int], list[int]] = {}
        for place, (base, head) in enumerate(sides):
            places.setdefault((len(base), len(head)), []).append(place)
        for own in places.values():
            found = cls.of(*(np.array([sides[place][side] for place in own], dtype=float) for side in (0, 1)))
            for field, name in zip(fields, cls.__dataclass_fields__, strict=True):
                field[own] = getattr(found, name)
        return cls(*fields)


@dataclass(frozen=True, slots=True)
class Decisions:
    """The decisions on cells: one entry per cell.

    Attributes:
        verdicts: The verdicts.
        codes: Their reasons.
        p: The p-value of the direction in which the cell lies, adjusted for the number of cells.
        worth: The smallest difference worth a verdict, as a logarithm.
    """

    verdicts: NDArray[np.object_]
    codes: NDArray[np.object_]
    p: Numbers
    worth: Numbers


def decide(evidence: Evidence, *, smallest: Numbers, large: Numbers, q: float) -> Decisions:
    """Returns the decisions on the cells of one comparison.

    - SLOWER: head is slower by an exact one-sided test of Mann and Whitney, after the control of false discoveries
      over all cells and both directions by Benjamini and Hochberg; the whole 95 % interval of the ratio lies beyond the
      smallest effect; and the ratio lies beyond three noise floors of the cell. FASTER likewise.
    - SAME: the whole interval lies within the difference worth a verdict, which is the smallest effect or three noise
      floors, whichever is larger; or the interval includes 1. In both cases a large difference is ruled out.
    - UNSURE: everything else.

    Ratios are judged by their logarithms, so the verdicts on two sides are mirrored when the sides are swapped.

    Args:
        evidence: The evidence of all cells of the comparison: the number of cells counts.
        smallest: For each cell, the smallest effect worth a verdict, as a share: 0.02 is 2 %.
        large: For each cell, the difference that must not stay undecided, likewise.
        q: The share of false discoveries, between 0 and 1.
    """
    adjusted = _adjusted(np.concatenate([evidence.slower, evidence.faster], axis=-1))
    slower, faster = np.split(adjusted, 2, axis=-1)
    least_effect = np.log1p(smallest)
    worth = np.maximum(least_effect, FLOORS * evidence.floor)
    much = np.maximum(np.log1p(large), least_effect)
    above = (evidence.low >= least_effect) & (evidence.shift >= worth)
    below = (evidence.high <= -least_effect) & (evidence.shift <= -worth)
    is_slower = above & (slower <= q)
    is_faster = below & (faster <= q)
    bounded = (evidence.low > -much) & (evidence.high < much)
    near = np.minimum(worth, much)
    within = (evidence.low > -near) & (evidence.high < near)
    is_same = (within | (bounded & (evidence.low <= 0) & (evidence.high >= 0))) & ~is_slower & ~is_faster
    # A cell whose processes are in the clearest order, and which still is not significant, needs more processes.
    clearest = np.minimum(evidence.slower, evidence.faster) <= evidence.least
    few = ~np.isfinite(evidence.low) | ((above | below) & clearest)
    verdicts = np.select(
        [is_slower, is_faster, is_same],
        [np.array(one, dtype=object) for one in (Verdict.SLOWER, Verdict.FASTER, Verdict.SAME)],
        np.array(Verdict.UNSURE, dtype=object),
    )
    codes = np.select(
        [is_slower | is_faster, is_same, few, bounded],
        [np.array(one, dtype=object) for one in (Code.BEYOND, Code.WITHIN, Code.FEW_PROCESSES, Code.SMALL)],
        np.array(Code.NOISE, dtype=object),
    )
    return Decisions(verdicts, codes, np.where(evidence.shift >= 0, slower, faster), worth)


def explain(code: Code, processes: tuple[int, int], needed: int) -> str | None:
    """Returns a sentence about an UNSURE cell; None for other codes.

    Args:
        code: The code.
        processes: The numbers of processes of base and of head.
        needed: How many of each side could show a difference of one cell.
    """
    fewer = f"{processes[0]} processes of base and {processes[1]} of head"
    least = max(needed, least_processes())
    return {
        Code.FEW_PROCESSES: f"{fewer} cannot be significant; at least {least} of each can",
        Code.NOISE: f"{fewer} differ too much among themselves to rule out a large difference",
        Code.SMALL: "there may be a small difference; a large one is ruled out",
    }.get(code)


def _adjusted(p: Numbers) -> Numbers:
    """Returns p-values adjusted by Benjamini and Hochberg, along the last axis."""
    if not p.shape[-1]:
        return p
    from scipy.stats import false_discovery_control

    return np.asarray(false_discovery_control(p, axis=-1))
