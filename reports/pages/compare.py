"""Compares two runs, cell by cell, and gives each cell a verdict."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

import msgspec

from reports.pages.alike import differences
from reports.records.cell import Cell, CellKey
from reports.records.measurements import Timing
from reports.records.record import Record, last_by_cell
from reports.records.status import Status
from reports.statistics.verdict_codes import FALSE_DISCOVERIES, Code, Verdict

REFERENCE = "jnp"
"""The backend of the reference: the code of XLA itself, which no change of a kernel makes slower."""

_COMPARED = (Verdict.SAME, Verdict.FASTER, Verdict.SLOWER, Verdict.UNSURE)


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
        ratio: Time of head divided by time of base, for cells that were compared, else None. Above 1 head is slower.
        low: Lower end of the 95 % interval of the ratio; None with fewer than three blocks.
        high: Upper end.
        p: The p-value of the direction in which the cell lies, adjusted for the number of cells.
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
    processes: tuple[int, int] | None = None
    base_status: Status | None = None
    head_status: Status | None = None

    @property
    def is_compared(self) -> bool:
        """Whether the times of both sides were compared, whatever the verdict."""
        return self.verdict in _COMPARED

    @property
    def is_bad(self) -> bool:
        """Whether head is slower, or wrong."""
        return self.verdict in (Verdict.SLOWER, Verdict.BROKEN)

    @property
    def is_undecided(self) -> bool:
        """Whether nothing is known of head where something should be.

        The cell is missing, not comparable or could not be judged, or its times cannot rule out a large difference. A
        cell that nobody can run here, because both sides skipped it, is not undecided.
        """
        if self.verdict is Verdict.UNSURE:
            return self.code in (Code.NOISE, Code.FEW_PROCESSES)
        return self.verdict is Verdict.MISSING or (
            self.verdict is Verdict.NOT_COMPARABLE and self.code is not Code.SKIPPED
        )


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
    that was skipped on both sides is NOT_COMPARABLE. The reference and other libraries take no part: no change of a
    kernel makes them slower. `reports.statistics.decision.decide` has the rule for the others.

    Args:
        base: The records of base.
        head: The records of head.
        smallest: By platform, the smallest effect worth a verdict, as a share: 0.05 is 5 %.
        large: By platform, the difference that must not stay undecided, likewise.
        q: The share of false discoveries among the cells called SLOWER, and among those called FASTER.
        interleaved: Whether fresh processes of base and head alternated in one session, in blocks. Two sessions, one
            after the other, have different states of the machine: only large differences are decided.

    Raises:
        ValueError: `q` is not between 0 and 1.
    """
    from reports.statistics.decision import Times, decide

    sides = [{_pair(one.cell): one for one in last_by_cell(records) if can_fail(one)} for records in (base, head)]
    keys = list(dict.fromkeys([*sides[1], *sides[0]]))
    found = [_compare_cell(*(side.get(key) for side in sides)) for key in keys]
    places = [place for place, one in enumerate(found) if one.is_compared]
    times = [
        Times(
            _by_block(sides[0][keys[place]].timing), _by_block(sides[1][keys[place]].timing), found[place].cell.platform
        )
        for place in places
    ]
    decisions = decide(times, smallest=smallest, large=large, q=q, sessions=not interleaved)
    for place, own in zip(places, decisions, strict=True):
        found[place] = replace(
            found[place], verdict=own.verdict, code=own.code, reason=_REASONS.get(own.code), ratio=own.ratio,
            low=own.low, high=own.high, p=own.p,
        )  # fmt: skip
    return found


_REASONS = {
    Code.FEW_PROCESSES: "fewer than three processes of a side decide nothing. Take more with --processes",
    Code.NOISE: "the processes differ too much among themselves to rule out a large difference",
    Code.SMALL: "there may be a small difference; a large one is ruled out",
}


def can_fail(record: Record) -> bool:
    """Whether a cell takes part in comparisons of revisions: it is neither the reference nor another library."""
    return record.cell.backend != REFERENCE and record.cell.backend not in record.run.peers


def _by_block(timing: Timing | None) -> dict[int, float]:
    """Returns the median of each process by its block; without recorded blocks, processes are in order."""
    assert timing is not None
    return {
        place if process.block is None else process.block: process.median_ns
        for place, process in enumerate(timing.processes)
    }


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
    if head is not None and head.status.wrong:
        return Verdict.BROKEN, Code.FAILED, text
    if _is_absent(head) and not _is_absent(base):
        code, reason = _absence("head", head)
        return Verdict.MISSING, code, "; ".join(filter(None, [reason, text]))
    if failures:
        # A base that crashed or timed out says nothing of its kernel: the machine can be the cause.
        is_fixed = base is not None and base.status.wrong and base.status not in _MACHINE and head is not None
        is_fixed = is_fixed and head is not None and head.status is Status.PASSED
        return (Verdict.FIXED, Code.FAILED, text) if is_fixed else (Verdict.NOT_COMPARABLE, Code.UNJUDGED, text)
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
        return Verdict.NOT_COMPARABLE, Code.CONDITIONS, "; ".join(found)
    unsteady = [side for side, timing in (("base", base.timing), ("head", head.timing)) if not timing.is_steady]
    if unsteady:
        said = f"the program around the calls decides the time of {' and '.join(unsteady)}"
        return Verdict.NOT_COMPARABLE, Code.NOT_STEADY, said
    return Verdict.UNSURE, Code.NOISE, None


_MACHINE = (Status.CRASHED, Status.TIMEOUT)


def _pair(cell: Cell) -> CellKey:
    """Returns what is equal in two cells that are compared: everything but the version of the operator."""
    return msgspec.structs.replace(cell, operator_version=0).key


def _is_absent(record: Record | None) -> bool:
    return record is None or record.status is Status.SKIPPED


def _absence(side: str, record: Record | None) -> tuple[Code, str]:
    if record is None:
        return Code.ABSENT, f"not in {side}"
    return Code.SKIPPED, f"skipped in {side}: {record.reason}"
