"""Compares two runs, cell by cell, and gives each cell a verdict."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import msgspec

from reports.pages.alike import differences
from reports.records.cell import Cell, CellKey
from reports.records.measurements import Timing
from reports.records.record import Record, last_by_cell
from reports.records.status import Status
from reports.statistics.verdict_codes import (
    FALSE_DISCOVERIES,
    LARGE,
    LARGE_APART,
    SMALLEST,
    SMALLEST_APART,
    Code,
    Verdict,
)

if TYPE_CHECKING:
    from reports.statistics.decision import Decisions, Evidence

YARDSTICK = "jnp"
"""The backend that the cells of two separate sessions are measured with: the code of XLA itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """One cell in both runs.

    Attributes:
        cell: The cell, from head if head has it.
        verdict: The verdict.
        code: Why, in one word.
        reason: Why, in words; None for SAME, FASTER and SLOWER.
        base_ns: Median of base, ns per call; None where base did not pass.
        head_ns: Median of head, likewise.
        ratio: Time of head divided by time of base, for cells that were compared, else None. Above 1 means that head is
            slower. It is the shift of Hodges and Lehmann on logarithms; of two separate sessions, both times are first
            divided by the time of `jnp` in the same process.
        low: Lower end of the exact 95 % interval of the ratio; None where there are too few processes.
        high: Upper end.
        p: The p-value of the direction in which the cell lies, adjusted for the number of cells.
        floor: The noise floor of the cell, as a share: 0.01 is 1 %. None where there are too few processes.
        worth: The smallest difference worth a verdict in this cell, likewise.
        processes: The numbers of processes of base and of head; None where a side has no time.
        base_status: How base ended; None where it has no such cell.
        head_status: How head ended, likewise.
    """

    cell: Cell
    verdict: Verdict
    code: Code
    reason: str | None = None
    base_ns: float | None = None
    head_ns: float | None = None
    ratio: float | None = None
    low: float | None = None
    high: float | None = None
    p: float | None = None
    floor: float | None = None
    worth: float | None = None
    processes: tuple[int, int] | None = None
    base_status: Status | None = None
    head_status: Status | None = None

    @property
    def is_compared(self) -> bool:
        """Whether the times of both sides were compared, whatever the verdict."""
        return self.verdict in (Verdict.SAME, Verdict.FASTER, Verdict.SLOWER, Verdict.UNSURE)

    @property
    def is_bad(self) -> bool:
        """Whether head is slower, or wrong.

        A cell that is wrong in base only has been fixed. A slower `jnp` is no kernel that has become slower.
        """
        is_slower = self.verdict is Verdict.SLOWER and self.cell.backend != YARDSTICK
        return is_slower or (self.head_status is not None and self.head_status.wrong)

    @property
    def is_undecided(self) -> bool:
        """Whether nothing is known of head where something should be.

        The cell is missing, not comparable or could not be judged in head, or its times cannot rule out a large
        difference. A cell that nobody can run here, because both sides skipped it, is not undecided; nor is `jnp`,
        which is no kernel, unless it is missing or could not be judged.
        """
        if self.verdict is Verdict.MISSING or (self.head_status is not None and self.head_status.failed):
            return self.head_status is None or not self.head_status.wrong
        if self.cell.backend == YARDSTICK:
            return False
        if self.verdict is Verdict.UNSURE:
            return self.code in (Code.NOISE, Code.FEW_PROCESSES)
        return self.verdict is Verdict.NOT_COMPARABLE and self.code is not Code.SKIPPED


def compare(
    base: Iterable[Record],
    head: Iterable[Record],
    *,
    smallest: Mapping[str, float] | None = None,
    large: Mapping[str, float] | None = None,
    q: float = FALSE_DISCOVERIES,
    interleaved: bool = False,
) -> list[Comparison]:
    """Returns one comparison per cell, first for the cells of head in their order, then for those that only base has.

    Each side is one run. The last record of a cell counts. Two cells are a pair if they are equal in everything except
    the operator's version. A cell that was skipped on one side counts as absent there: it is MISSING or NEW. A cell
    that was skipped on both sides is NOT_COMPARABLE. `reports.statistics.decision.decide` has the rule for the others.

    Args:
        base: The records of base.
        head: The records of head.
        smallest: By platform, the smallest effect worth a verdict, as a share: 0.02 is 2 %. By default `SMALLEST`, or
            `SMALLEST_APART` for two separate sessions.
        large: By platform, the difference that must not stay undecided, likewise; `LARGE` or
            `LARGE_APART` by default.
        q: The share of false discoveries among the cells called FASTER or SLOWER.
        interleaved: Whether fresh processes of base and head alternated in one session. Then their times are compared.
            Two sessions, one after the other, have different states of the machine. Then ratios to `jnp` in the same
            process are compared, and `jnp` itself has no verdict.

    Raises:
        ValueError: `q` is not between 0 and 1.
    """
    if not 0 < q < 1:
        raise ValueError(f"q={q!r}: expected a share between 0 and 1, such as {FALSE_DISCOVERIES}.")
    sides = [_Side(records, interleaved) for records in (base, head)]
    keys = list(dict.fromkeys([*sides[1].records, *sides[0].records]))
    found = [_compare_cell(*(side.records.get(key) for side in sides)) for key in keys]
    values = [[side.logarithms(key) for side in sides] for key in keys]
    if not interleaved:
        found = [_without_yardstick(one, *own) for one, own in zip(found, values, strict=True)]
    places = [
        place for place, one in enumerate(found) if one.verdict is Verdict.UNSURE and one.code is not Code.BASELINE
    ]
    limits = (
        {**(SMALLEST if interleaved else SMALLEST_APART), **(smallest or {})},
        {**(LARGE if interleaved else LARGE_APART), **(large or {})},
    )
    judged = _judged([found[place] for place in places], [values[place] for place in places], limits, q)
    for place, one in zip(places, judged, strict=True):
        found[place] = one
    return found


class _Side:
    """The records of one run, by cell, and the numbers that are compared."""

    def __init__(self, records: Iterable[Record], interleaved: bool) -> None:
        known = last_by_cell(records)
        self.records = {_pair(record.cell): record for record in known}
        self._interleaved = interleaved

    def logarithms(self, key: CellKey) -> list[float] | None:
        """Returns the logarithm of the time of each process, of separate sessions of its ratio to `jnp`."""
        record = self.records.get(key)
        if record is None or record.timing is None:
            return None
        own = _logarithms(record.timing)
        if self._interleaved or record.cell.backend == YARDSTICK:
            return own
        other = self.records.get(_pair(msgspec.structs.replace(record.cell, backend=YARDSTICK)))
        if other is None or other.timing is None or not other.timing.is_steady or _ways(other) != _ways(record):
            return None
        theirs = _logarithms(other.timing)
        # Only processes that measured both are pairs. A resumed run can have more of one cell.
        if len(theirs) != len(own):
            theirs = [math.fsum(theirs) / len(theirs)] * len(own)
        return [one - another for one, another in zip(own, theirs, strict=True)]


def _compare_cell(base: Record | None, head: Record | None) -> Comparison:
    known = head or base
    assert known is not None
    verdict, code, reason = _sorted_out(base, head)
    base_time, head_time = (None if one is None else one.timing for one in (base, head))
    return Comparison(
        cell=known.cell,
        verdict=verdict,
        code=code,
        reason=reason,
        base_ns=base_time.median_ns if base_time else None,
        head_ns=head_time.median_ns if head_time else None,
        processes=(len(base_time.processes), len(head_time.processes)) if base_time and head_time else None,
        base_status=None if base is None else base.status,
        head_status=None if head is None else head.status,
    )


def _sorted_out(base: Record | None, head: Record | None) -> tuple[Verdict, Code, str | None]:
    """Returns the verdict of a cell whose times cannot be compared; UNSURE for the others."""
    failures: dict[str, list[str]] = {}
    for side, record in (("base", base), ("head", head)):
        if record is not None and record.status.failed:
            failures.setdefault(f"{record.status}: {record.reason}", []).append(side)
    text = "; ".join(f"{' and '.join(sides)} {text}" for text, sides in failures.items())
    if _is_absent(head) and not _is_absent(base):
        code, reason = _absence("head", head)
        return Verdict.MISSING, code, "; ".join(filter(None, [reason, text]))
    # A cell that is UNCHECKED, or found too little memory, is not wrong, and nobody knows how fast it is.
    if any(record is not None and record.status.wrong for record in (base, head)):
        return Verdict.WRONG, Code.FAILED, text
    if failures:
        return Verdict.NOT_COMPARABLE, Code.UNJUDGED, text
    if base is None or (base.status is Status.SKIPPED and not _is_absent(head)):
        return Verdict.NEW, *_absence("base", base)
    assert head is not None
    if base.status is Status.SKIPPED:
        return Verdict.NOT_COMPARABLE, Code.SKIPPED, f"skipped on both sides: {head.reason}"
    if base.timing is None or head.timing is None:
        untimed = [side for side, record in (("base", base), ("head", head)) if record.timing is None]
        return Verdict.NOT_COMPARABLE, Code.UNTIMED, f"not timed: {' and '.join(untimed)}"
    found = differences(base, head)
    if found:
        return Verdict.NOT_COMPARABLE, found[0][0], "; ".join(text for _, text in found)
    unsteady = [side for side, timing in (("base", base.timing), ("head", head.timing)) if not timing.is_steady]
    if unsteady:
        said = f"the program around the calls decides the time of {' and '.join(unsteady)}"
        return Verdict.NOT_COMPARABLE, Code.NOT_STEADY, said
    return Verdict.UNSURE, Code.NOISE, None


def _without_yardstick(one: Comparison, base: list[float] | None, head: list[float] | None) -> Comparison:
    """Gives a cell of two separate sessions that cannot be measured with `jnp` its verdict."""
    if one.verdict is not Verdict.UNSURE:
        return one
    if one.cell.backend == YARDSTICK:
        said = f"the time of {YARDSTICK} in two sessions: the state of the machine is not judged"
        return replace(one, code=Code.BASELINE, reason=said)
    without = [side for side, values in (("base", base), ("head", head)) if values is None]
    if without:
        said = (
            f"two sessions are compared by ratios to {YARDSTICK}, which has no steady time in {' and '.join(without)}"
        )
        return replace(one, verdict=Verdict.NOT_COMPARABLE, code=Code.NO_BASELINE, reason=said)
    return one


def _judged(
    cells: Sequence[Comparison],
    values: Sequence[Sequence[list[float] | None]],
    limits: tuple[Mapping[str, float], Mapping[str, float]],
    q: float,
) -> list[Comparison]:
    if not cells:
        return []
    import numpy as np

    from reports.statistics.decision import Evidence, decide

    evidence = Evidence.gathered([(base or [], head or []) for base, head in values])
    effects = [np.array([limit[one.cell.platform] for one in cells]) for limit in limits]
    decisions = decide(evidence, smallest=effects[0], large=effects[1], q=q)
    return [_filled(one, place, evidence, decisions, len(cells), q) for place, one in enumerate(cells)]


def _filled(
    one: Comparison, place: int, evidence: "Evidence", decisions: "Decisions", cells: int, q: float
) -> Comparison:
    from reports.statistics.decision import explain
    from reports.statistics.ranks import processes_needed

    assert one.processes is not None
    verdict, code = Verdict(decisions.verdicts[place]), Code(decisions.codes[place])
    return replace(
        one,
        verdict=verdict,
        code=code,
        reason=explain(code, one.processes, processes_needed(cells, q)),
        ratio=_ratio(evidence.shift[place]),
        low=_ratio(evidence.low[place]),
        high=_ratio(evidence.high[place]),
        p=float(decisions.p[place]),
        floor=_share(evidence.floor[place]),
        worth=_share(decisions.worth[place]),
    )


def _ratio(logarithm: float) -> float | None:
    return math.exp(logarithm) if math.isfinite(logarithm) else None


def _share(logarithm: float) -> float | None:
    return math.expm1(logarithm) if math.isfinite(logarithm) else None


def _logarithms(timing: Timing) -> list[float]:
    return [math.log(time) for time in timing.medians_ns]


def _pair(cell: Cell) -> CellKey:
    """Returns what is equal in two cells that are compared: everything but the version of the operator."""
    return msgspec.structs.replace(cell, operator_version=0).key


def _ways(record: Record) -> tuple[object, ...]:
    assert record.timing is not None
    return record.timing.method, record.timing.cache, str(record.shapes), record.seed


def _is_absent(record: Record | None) -> bool:
    return record is None or record.status is Status.SKIPPED


def _absence(side: str, record: Record | None) -> tuple[Code, str]:
    if record is None:
        return Code.ABSENT, f"not in {side}"
    return Code.SKIPPED, f"skipped in {side}: {record.reason}"
