"""Applies the policy of the gate to the comparisons of all cells. Pure: the same input gives the same result."""

import datetime
import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from reports.gate.policy import Allowed, Policy
from reports.options import Exit
from reports.pages.compare import Comparison
from reports.pages.phrases import cells_text, ids_text
from reports.statistics.verdict_codes import Code, Verdict


class Effect(StrEnum):
    """The effect of a cell on the result of the gate."""

    PASSES = "PASSES"
    """It is as fast as before, or faster, or new, or fixed."""
    FAILS = "FAILS"
    """It is slower, or wrong."""
    UNSURE = "UNSURE"
    """Because of noise or too few processes, it may be slower. The policy allows a share of such cells."""
    SUSPECT = "SUSPECT"
    """It may be slower, and its ratio lies beyond the large effect. The gate never passes with such a cell."""
    UNDECIDED = "UNDECIDED"
    """It should have been compared, but is missing, not comparable, or could not be judged."""
    EXCUSED = "EXCUSED"
    """An entry of the policy allows it."""
    IDLE = "IDLE"
    """It cannot run here, neither in base nor in head."""


@dataclass(frozen=True)
class Ruling:
    """The effect of one cell.

    Attributes:
        comparison: The cell.
        effect: Its effect.
        excuse: The entry of the policy that excuses it.
    """

    comparison: Comparison
    effect: Effect
    excuse: Allowed | None = None


@dataclass(frozen=True)
class GateDecision:
    """The result of the gate.

    Attributes:
        exit: WRONG if a cell is slower or wrong; COULD_NOT_RUN if the gate could not decide; else FINE.
        rulings: The effect of each cell, in the order of the comparisons.
        lines: Why it is not FINE, a sentence each; beside slower cells, also undecided ones.
        notes: Notes on the policy: its limits, and entries that excused cells, have expired, or excuse nothing.
    """

    exit: Exit
    rulings: tuple[Ruling, ...]
    lines: tuple[str, ...]
    notes: tuple[str, ...]


def decide_gate(
    policy: Policy,
    comparisons: Sequence[Comparison],
    *,
    today: datetime.date,
    sessions: bool = False,
    platforms: Collection[str] = (),
    doubts: Sequence[str] = (),
) -> GateDecision:
    """Decides whether a change passes the gate.

    A cell that is slower, or wrong in head, fails the gate. An entry of the policy excuses a cell that is slower,
    missing, unsure or not comparable, but never a wrong result. A cell that was wrong in base only is fixed.

    Args:
        policy: The policy. Take it from the base of a change: a change must not loosen its own limits.
        comparisons: One for each cell.
        today: The day, in UTC.
        sessions: Whether base and head were timed in two sessions, one after the other, which has wider limits.
        platforms: The platforms on which a cell must have been compared, such as `cuda` on a machine with a GPU.
        doubts: The missing and damaged parts of the runs. With a doubt the gate cannot pass.
    """
    from reports.statistics.decision import limits_in_force

    limits = limits_in_force(
        {str(name): share for name, share in policy.smallest.items()},
        {str(name): share for name, share in policy.large.items()},
        sessions=sessions,
    )
    valid = [entry for entry in policy.allow if entry.until >= today]
    rulings = tuple(_rule(one, valid, limits[1]) for one in comparisons)
    failing = [each for each in rulings if each.effect is Effect.FAILS]
    lines = [
        *_failures(failing),
        *doubts,
        *_suspects(rulings),
        *_undecided(rulings),
        *_too_unsure(rulings, policy.most_unsure),
        *_not_compared(rulings, platforms),
    ]
    code = Exit.WRONG if failing else Exit.COULD_NOT_RUN if lines else Exit.FINE
    judged = sorted({str(one.cell.platform) for one in comparisons} or limits[0])
    notes = [*(_limits_text(name, limits, policy, sessions) for name in judged), *_notes(policy, rulings, today)]
    return GateDecision(code, rulings, tuple(lines), tuple(notes))


def _limits_text(
    platform: str, limits: tuple[Mapping[str, float], Mapping[str, float]], policy: Policy, sessions: bool
) -> str:
    return (
        f"limits on {platform}{' for two sessions' if sessions else ''}: smallest {limits[0][platform]:.3g}, large"
        f" {limits[1][platform]:.3g}, most-unsure {policy.most_unsure:.3g}, false-discovery-rate"
        f" {policy.false_discovery_rate:.3g}"
    )


def _rule(one: Comparison, valid: Sequence[Allowed], large: Mapping[str, float]) -> Ruling:
    effect = _effect(one, 1 + large.get(one.cell.platform, math.inf))
    if effect in (Effect.FAILS, Effect.UNSURE, Effect.SUSPECT, Effect.UNDECIDED) and not _is_wrong(one):
        excuse = next((entry for entry in valid if entry.fits(one.cell)), None)
        if excuse is not None:
            return Ruling(one, Effect.EXCUSED, excuse)
    return Ruling(one, effect)


def _effect(one: Comparison, large: float) -> Effect:
    if one.is_bad:
        return Effect.FAILS
    if one.verdict is Verdict.NOT_COMPARABLE and one.code is Code.SKIPPED:
        return Effect.IDLE
    if one.verdict is Verdict.UNSURE:
        # The ratio lies above the lower end of its interval, so this also covers intervals beyond the large effect.
        if one.ratio is not None and one.ratio > large:
            return Effect.SUSPECT
        is_bounded = one.code is Code.SMALL if one.high is None else one.high <= large
        return Effect.PASSES if is_bounded else Effect.UNSURE
    return Effect.UNDECIDED if one.is_undecided else Effect.PASSES


def _is_wrong(one: Comparison) -> bool:
    return one.verdict is Verdict.BROKEN


def _failures(failing: Sequence[Ruling]) -> list[str]:
    wrong = [each.comparison.cell.id for each in failing if _is_wrong(each.comparison)]
    slower = [each.comparison.cell.id for each in failing if not _is_wrong(each.comparison)]
    return [f"{name}: {ids_text(ids)}" for name, ids in (("WRONG", wrong), ("SLOWER", slower)) if ids]


def _undecided(rulings: Sequence[Ruling]) -> list[str]:
    """Returns a line for each way in which cells could not be compared."""
    by_reason: dict[str, list[str]] = {}
    for each in rulings:
        if each.effect is Effect.UNDECIDED:
            one = each.comparison
            status = one.head_status if one.head_status is not None and one.head_status.failed else one.verdict
            by_reason.setdefault(f"{status} ({one.code})", []).append(one.cell.id)
    return [f"{name}: {ids_text(ids)}" for name, ids in by_reason.items()]


def _suspects(rulings: Sequence[Ruling]) -> list[str]:
    suspects = [each.comparison for each in rulings if each.effect is Effect.SUSPECT]
    if not suspects:
        return []
    texts = ids_text([f"{one.cell.id} ({one.ratio:.2f}x)" for one in suspects])
    return [
        f"UNSURE beyond the large effect: {texts}. It may be slower: take more processes, more --minutes, or a"
        " quieter machine."
    ]


def _too_unsure(rulings: Sequence[Ruling], most: float) -> list[str]:
    counting = [each for each in rulings if each.comparison.is_compared and each.effect in _COUNTED]
    unsure = [each.comparison for each in counting if each.effect is Effect.UNSURE]
    if not unsure or len(unsure) <= most * len(counting):
        return []
    why = (
        " Take more processes: more --minutes, or fewer cells."
        if any(one.code is Code.FEW_PROCESSES for one in unsure)
        else " Use a quieter machine, or more --minutes."
    )
    return [
        f"UNSURE: {cells_text(len(unsure))} of {len(counting):,}, and most-unsure allows {most:.0%}:"
        f" {ids_text([one.cell.id for one in unsure])}.{why}"
    ]


_COUNTED = (Effect.PASSES, Effect.FAILS, Effect.UNSURE, Effect.SUSPECT)


def _not_compared(rulings: Sequence[Ruling], platforms: Collection[str]) -> list[str]:
    """Returns a line for each platform on which no kernel was compared; without platforms, one line if none was."""
    judged = {each.comparison.cell.platform for each in rulings if each.comparison.is_compared}
    lines = [f"no kernel was compared on {platform}" for platform in sorted(platforms) if platform not in judged]
    return lines if lines or judged else ["no kernel was compared"]


def _notes(policy: Policy, rulings: Sequence[Ruling], today: datetime.date) -> list[str]:
    notes = []
    for entry in policy.allow:
        excused = [each.comparison for each in rulings if each.excuse is entry]
        text = f"{entry.cell!r} ({entry.reason}, until {entry.until})"
        if entry.until < today:
            days = (today - entry.until).days
            notes.append(f"the entry {text} expired {days:,} day{'s' if days != 1 else ''} ago: it excuses nothing")
        elif excused:
            ids = ids_text([f"{one.cell.id} {one.verdict}" for one in excused])
            notes.append(f"the entry {text} excuses {ids}")
        elif any(entry.fits(each.comparison.cell) for each in rulings):
            notes.append(f"the entry {text} excuses nothing: remove it")
        else:
            notes.append(f"the entry {text} fits no cell of this comparison")
    fixed = [each.comparison.cell.id for each in rulings if each.comparison.verdict is Verdict.FIXED]
    if fixed:
        notes.append(f"wrong in base, right in head, so no times to compare: {ids_text(fixed)}")
    return notes
