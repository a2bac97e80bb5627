"""Compares two runs, cell by cell, and gives each cell a verdict."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from reports.pages.alike import differences
from reports.pages.rows import BASELINE
from reports.records.cell import Cell
from reports.records.measurements import Timing
from reports.records.record import Record, last_by_cell
from reports.records.status import Status
from reports.statistics.verdict_codes import FALSE_DISCOVERIES, Code, Verdict

_COMPARED = (Verdict.SAME, Verdict.FASTER, Verdict.SLOWER, Verdict.UNSURE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """One cell in both runs.

    Attributes:
        cell: The cell, from head if head has it.
        verdict: The verdict.
        code: The reason in one word.
        reason: The reason as text; None for SAME, FASTER and SLOWER.
        base_ns: Time of base, ns per call: the geometric mean over the processes that were compared, else the median.
            None if base did not pass.
        head_ns: The same for head.
        ratio: `head_ns` divided by `base_ns`, for cells that were compared, else None. Above 1 head is slower.
        low: Lower end of the 95 % interval of the ratio; None with fewer than three pairs.
        high: Upper end; None with fewer than three pairs.
        p: The p-value for the direction of the ratio, adjusted for the number of cells.
        processes: The numbers of processes of base and of head; None if one of them has no time.
        base_status: How base ended; None if it has no such cell.
        head_status: How head ended; None if it has no such cell.
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
        """Whether the times of base and head were compared, with any verdict."""
        return self.verdict in _COMPARED

    @property
    def is_bad(self) -> bool:
        """Whether head is slower, or wrong."""
        return self.verdict in (Verdict.SLOWER, Verdict.BROKEN)

    @property
    def is_undecided(self) -> bool:
        """Whether head may be slower without a verdict that says so.

        The cell is missing, not comparable or could not be judged, or its times cannot rule out a large difference. A
        cell that base and head both skipped cannot run here, and is not undecided.
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

    Base and head are one run each. The last record of a cell counts. A cell of base is compared with the cell of head
    that is equal in everything except the operator's version. A cell that one of them skipped counts as absent there:
    it is MISSING or NEW. A cell that both skipped is NOT_COMPARABLE. The reference and other libraries are left out: no
    change of a kernel makes them slower. `reports.statistics.decision.decide` has the rule for the others.

    Args:
        base: The records of base.
        head: The records of head.
        smallest: By platform, the smallest effect worth a verdict, as a share: 0.05 is 5 %.
        large: By platform, the difference that must not stay undecided, as a share.
        q: The share of false discoveries among the cells called SLOWER, and among those called FASTER.
        interleaved: Whether fresh processes of base and head were timed in pairs, in one session. Between two sessions
            the machine may change: then only large differences are decided.

    Raises:
        ValueError: `q` is not between 0 and 1.
    """
    from reports.statistics.decision import Times, decide

    olds, news = (
        {one.cell.versionless_key: one for one in last_by_cell(records) if can_fail(one)} for records in (base, head)
    )
    keys = list(dict.fromkeys([*news, *olds]))
    comparisons = [_compare_cell(olds.get(key), news.get(key)) for key in keys]
    indices = [index for index, one in enumerate(comparisons) if one.is_compared]
    times = [
        Times(
            _by_pair(olds[keys[index]].timing),
            _by_pair(news[keys[index]].timing),
            comparisons[index].cell.platform,
        )
        for index in indices
    ]
    decisions = decide(times, smallest=smallest, large=large, q=q, sessions=not interleaved)
    for index, own in zip(indices, decisions, strict=True):
        comparisons[index] = replace(
            comparisons[index], verdict=own.verdict, code=own.code, reason=_REASONS.get(own.code), ratio=own.ratio,
            low=own.low, high=own.high, p=own.p,
            base_ns=own.base_ns or comparisons[index].base_ns, head_ns=own.head_ns or comparisons[index].head_ns,
        )  # fmt: skip
    return comparisons


_REASONS = {
    Code.FEW_PROCESSES: "fewer than three processes of base or head decide nothing. Take more with --processes",
    Code.NOISE: "the processes differ too much among themselves to rule out a large difference",
    Code.SMALL: "there may be a small difference; a large one is ruled out",
}


def can_fail(record: Record) -> bool:
    """Tells whether a cell is compared between revisions: it is neither the reference nor another library."""
    return record.cell.backend != BASELINE and record.cell.backend not in record.run.peers


def _by_pair(timing: Timing | None) -> dict[int, float]:
    """Returns the median of each process by the number of its pair; in order if no numbers are recorded."""
    assert timing is not None
    return {
        index if process.block is None else process.block: process.median_ns
        for index, process in enumerate(timing.processes)
    }


def _compare_cell(base: Record | None, head: Record | None) -> Comparison:
    record = head or base
    assert record is not None
    verdict, code, reason = _without_times(base, head)
    base_time, head_time = (None if one is None else one.timing for one in (base, head))
    return Comparison(
        cell=record.cell,
        verdict=verdict,
        code=code,
        reason=reason,
        base_ns=base_time.median_ns if base_time else None,
        head_ns=head_time.median_ns if head_time else None,
        processes=(len(base_time.processes), len(head_time.processes)) if base_time and head_time else None,
        base_status=None if base is None else base.status,
        head_status=None if head is None else head.status,
    )


def _without_times(base: Record | None, head: Record | None) -> tuple[Verdict, Code, str | None]:
    """Returns the verdict on a cell whose times cannot be compared; UNSURE for the others."""
    failures: dict[str, list[str]] = {}
    for label, record in (("base", base), ("head", head)):
        if record is not None and record.status.failed:
            failures.setdefault(f"{record.status}: {record.reason}", []).append(label)
    text = "; ".join(f"{' and '.join(labels)} {text}" for text, labels in failures.items())
    if head is not None and head.status.wrong:
        return Verdict.BROKEN, Code.FAILED, text
    if _is_absent(head) and not _is_absent(base):
        code, reason = _absence("head", head)
        return Verdict.MISSING, code, "; ".join(filter(None, [reason, text]))
    if failures:
        # If base crashed or timed out, its kernel need not have been wrong: the machine can be the cause.
        is_fixed = base is not None and base.status.wrong and base.status not in _MACHINE and head is not None
        is_fixed = is_fixed and head is not None and head.status is Status.PASSED
        return (Verdict.FIXED, Code.FAILED, text) if is_fixed else (Verdict.NOT_COMPARABLE, Code.UNJUDGED, text)
    if base is None or (base.status is Status.SKIPPED and not _is_absent(head)):
        return Verdict.NEW, *_absence("base", base)
    assert head is not None
    if base.status is Status.SKIPPED:
        return Verdict.NOT_COMPARABLE, Code.SKIPPED, f"skipped in base and head: {head.reason}"
    if base.timing is None or head.timing is None:
        untimed = [label for label, record in (("base", base), ("head", head)) if record.timing is None]
        return Verdict.NOT_COMPARABLE, Code.UNTIMED, f"not timed: {' and '.join(untimed)}"
    conditions = differences(base, head)
    if conditions:
        return Verdict.NOT_COMPARABLE, Code.CONDITIONS, "; ".join(conditions)
    unsteady = [label for label, timing in (("base", base.timing), ("head", head.timing)) if not timing.is_steady]
    if unsteady:
        reason = f"the program around the calls takes most of the time of {' and '.join(unsteady)}"
        return Verdict.NOT_COMPARABLE, Code.NOT_STEADY, reason
    return Verdict.UNSURE, Code.NOISE, None


_MACHINE = (Status.CRASHED, Status.TIMEOUT)


def _is_absent(record: Record | None) -> bool:
    return record is None or record.status is Status.SKIPPED


def _absence(label: str, record: Record | None) -> tuple[Code, str]:
    if record is None:
        return Code.ABSENT, f"not in {label}"
    return Code.SKIPPED, f"skipped in {label}: {record.reason}"
