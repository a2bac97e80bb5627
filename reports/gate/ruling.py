"""Applies the policy of the gate to the comparisons of all cells. Pure: the same input gives the same result."""

import datetime
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from enum import StrEnum

from reports.gate.policy import Allowed, Policy
from reports.options import Exit
from reports.pages.compare import YARDSTICK, Comparison
from reports.pages.phrases import cells_text, ids_text
from reports.statistics.verdict_codes import Code, Verdict


class Effect(StrEnum):
    """What a cell does to the result of the gate."""

    PASSES = "PASSES"
    """It is as fast as before, or faster, or new."""
    FAILS = "FAILS"
    """It is slower, or wrong."""
    UNSURE = "UNSURE"
    """Noise, or too few processes, hide whether it is slower. A share of the cells may be so."""
    UNDECIDED = "UNDECIDED"
    """It should have been compared, and was not: it is missing, not comparable, or could not be judged."""
    EXCUSED = "EXCUSED"
    """An entry of the policy allows it."""
    IDLE = "IDLE"
    """It cannot run here, on either side; or it is the baseline, which is no kernel."""


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
        lines: Why it is not FINE, a sentence each; also what could not be decided beside cells that are slower.
        notes: What a reader should know of the policy: entries that excused cells, have expired, or excuse nothing.
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
    platforms: Collection[str] = (),
    doubts: Sequence[str] = (),
) -> GateDecision:
    """Decides whether a change passes.

    A cell that is slower, or wrong in head, fails the gate. An entry of the policy excuses a slower cell, and one that
    is missing, unsure or not comparable; it never excuses a wrong result. A slower `jnp` is said and fails nothing: it
    is no kernel. A cell that was wrong in base only has been fixed.

    Args:
        policy: What the project allows.
        comparisons: One for each cell.
        today: The day, in UTC.
        platforms: The platforms that a cell must have been compared on, such as `cuda` on a machine with a GPU.
        doubts: What is missing or damaged in the runs. Any doubt leaves the gate undecided.
    """
    valid = [entry for entry in policy.allow if entry.until >= today]
    rulings = tuple(_ruled(one, valid) for one in comparisons)
    failing = [each for each in rulings if each.effect is Effect.FAILS]
    lines = [
        *_failures(failing),
        *doubts,
        *_undecided(rulings),
        *_too_unsure(rulings, policy.most_unsure),
        *_not_compared(rulings, platforms),
    ]
    code = Exit.WRONG if failing else Exit.COULD_NOT_RUN if lines else Exit.FINE
    return GateDecision(code, rulings, tuple(lines), tuple(_notes(policy, rulings, today)))


def _ruled(one: Comparison, valid: Sequence[Allowed]) -> Ruling:
    effect = _effect(one)
    if effect in (Effect.FAILS, Effect.UNSURE, Effect.UNDECIDED) and not _is_wrong(one):
        excuse = next((entry for entry in valid if entry.fits(one.cell)), None)
        if excuse is not None:
            return Ruling(one, Effect.EXCUSED, excuse)
    return Ruling(one, effect)


def _effect(one: Comparison) -> Effect:
    if _is_wrong(one):
        return Effect.FAILS
    if one.head_status is not None and one.head_status.failed:
        return Effect.UNDECIDED
    if one.verdict is Verdict.NOT_COMPARABLE and one.code is Code.SKIPPED:
        return Effect.IDLE
    if one.cell.backend == YARDSTICK and one.verdict is not Verdict.MISSING:
        return Effect.IDLE
    if one.verdict is Verdict.SLOWER:
        return Effect.FAILS
    if one.is_undecided:
        return Effect.UNSURE if one.verdict is Verdict.UNSURE else Effect.UNDECIDED
    return Effect.PASSES


def _is_wrong(one: Comparison) -> bool:
    return one.head_status is not None and one.head_status.wrong


def _failures(failing: Sequence[Ruling]) -> list[str]:
    wrong = [each.comparison.cell.id for each in failing if _is_wrong(each.comparison)]
    slower = [each.comparison.cell.id for each in failing if not _is_wrong(each.comparison)]
    return [f"{name}: {ids_text(ids)}" for name, ids in (("WRONG", wrong), ("SLOWER", slower)) if ids]


def _undecided(rulings: Sequence[Ruling]) -> list[str]:
    """Returns a line for each way in which cells could not be compared."""
    found: dict[str, list[str]] = {}
    for each in rulings:
        if each.effect is Effect.UNDECIDED:
            one = each.comparison
            status = one.head_status if one.head_status is not None and one.head_status.failed else one.verdict
            found.setdefault(f"{status} ({one.code})", []).append(one.cell.id)
    return [f"{name}: {ids_text(ids)}" for name, ids in found.items()]


def _too_unsure(rulings: Sequence[Ruling], most: float) -> list[str]:
    compared = [each for each in rulings if each.comparison.is_compared and each.effect in _COUNTED]
    unsure = [each.comparison for each in compared if each.effect is Effect.UNSURE]
    if not unsure or len(unsure) <= most * len(compared):
        return []
    why = (
        " Take more processes: more --minutes, or fewer cells."
        if any(one.code is Code.FEW_PROCESSES for one in unsure)
        else " Use a quieter machine, or more --minutes."
    )
    return [
        f"UNSURE: {cells_text(len(unsure))} of {len(compared):,}, and most-unsure allows {most:.0%}:"
        f" {ids_text([one.cell.id for one in unsure])}.{why}"
    ]


_COUNTED = (Effect.PASSES, Effect.FAILS, Effect.UNSURE)


def _not_compared(rulings: Sequence[Ruling], platforms: Collection[str]) -> list[str]:
    """Returns a line for each platform, or for all of them, without a kernel that was compared."""
    kernels = [each.comparison for each in rulings if each.comparison.cell.backend != YARDSTICK]
    judged = {one.cell.platform for one in kernels if one.is_compared}
    lines = [f"no kernel was compared on {platform}" for platform in sorted(platforms) if platform not in judged]
    return lines if lines or judged else ["no kernel was compared"]


def _notes(policy: Policy, rulings: Sequence[Ruling], today: datetime.date) -> list[str]:
    notes = []
    for entry in policy.allow:
        excused = [each.comparison for each in rulings if each.excuse is entry]
        said = f"{entry.cell!r} ({entry.reason}, until {entry.until})"
        if entry.until < today:
            days = (today - entry.until).days
            notes.append(f"the entry {said} expired {days:,} day{'s' if days != 1 else ''} ago: it excuses nothing")
        elif excused:
            ids = ids_text([f"{one.cell.id} {one.verdict}" for one in excused])
            notes.append(f"the entry {said} excuses {ids}")
        else:
            notes.append(f"the entry {said} excuses nothing: remove it")
    slower = [
        each.comparison.cell.id
        for each in rulings
        if each.comparison.cell.backend == YARDSTICK and each.comparison.verdict is Verdict.SLOWER
    ]
    if slower:
        notes.append(f"{YARDSTICK} itself is slower, which fails nothing: {ids_text(slower)}")
    fixed = [each.comparison.cell.id for each in rulings if _is_fixed(each.comparison)]
    if fixed:
        notes.append(f"wrong in base, right in head, so no times to compare: {ids_text(fixed)}")
    return notes


def _is_fixed(one: Comparison) -> bool:
    return one.verdict is Verdict.WRONG and (one.head_status is None or not one.head_status.failed)
