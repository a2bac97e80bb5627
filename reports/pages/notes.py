"""Writes the notes below a table: how its cells were timed, and why some did not pass."""

from collections import Counter, defaultdict
from collections.abc import Sequence

from reports.pages.phrases import counted, ids_text, outcome_counts, shorten, span_text
from reports.pages.rows import BASELINE, CellRow
from reports.records.status import Status
from reports.render.units import count_text
from reports.statistics.intervals import LEAST


def count_note(rows: Sequence[CellRow]) -> str:
    """Returns the numbers of cells that passed, failed and were skipped."""
    counts = outcome_counts(row.status for row in rows)
    return "cells: " + ", ".join(f"{count_text(count)} {name}" for name, count in counts.items())


def remark_notes(rows: Sequence[CellRow]) -> list[str]:
    """Returns the remarks of the authors of operators."""
    remarks = dict.fromkeys((row.cell.operator, row.record.remarks) for row in rows if row.record.remarks)
    return [f"{operator}: {remark}" for operator, remark in remarks]


def method_notes(rows: Sequence[CellRow]) -> list[str]:
    """Returns how times were taken, in how many processes, and which samples were discarded."""
    timed = [row.timing for row in rows if row.timing]
    if not timed:
        return []
    methods = Counter(f"{timing.method}, cache {timing.cache}" for timing in timed)
    processes = {len(timing.processes) for timing in timed}
    in_all = f"{span_text(min(processes), max(processes))} process{'' if processes == {1} else 'es'}"
    notes = [f"method: {counted(methods)}; {in_all}"]
    discarded = [(row.cell.id, row.timing.discarded) for row in rows if row.timing and row.timing.discarded]
    if discarded:
        notes.append(
            f"{count_text(sum(number for _, number in discarded))} samples were discarded, because the device was"
            f" throttled ({ids_text([cell_id for cell_id, _ in discarded])})"
        )
    return notes


def process_notes(rows: Sequence[CellRow]) -> list[str]:
    """Returns notes on too few processes, or different numbers of processes."""
    timed = [(row.cell, len(row.timing.processes)) for row in rows if row.timing]
    few = [cell.id for cell, count in timed if count < LEAST]
    notes = []
    if few:
        whose = "no cell" if len(few) == len(timed) else f"{ids_text(few)}: none of them"
        notes.append(
            f"{whose} was measured in {LEAST} processes or more: so there is no interval, and no backend is called the"
            " fastest"
        )
    if len({count for _, count in timed}) > 1:
        notes.append("cells of different numbers of processes come from a resumed run; their ratios are not paired")
    return notes


def doubt_notes(rows: Sequence[CellRow]) -> list[str]:
    """Returns why cells with a time have no ratio to the baseline."""
    doubts: dict[str, list[str]] = defaultdict(list)
    for row in rows:
        doubt = row.doubt if row.cell.backend != BASELINE else None
        if doubt:
            doubts[doubt].append(row.cell.id)
    return [f"no ratio: {doubt} ({ids_text(ids)})" for doubt, ids in sorted(doubts.items())]


def reason_notes(rows: Sequence[CellRow]) -> list[str]:
    """Returns why cells failed, then why cells were skipped: one note per status, backend and reason."""
    reasons: dict[tuple[bool, str, str, str], list[str]] = defaultdict(list)
    for row in rows:
        if row.status is not Status.PASSED:
            key = (row.status is Status.SKIPPED, str(row.status), row.cell.backend, str(row.record.reason))
            reasons[key].append(row.cell.id)
    return [
        f"{status} {backend}: {shorten(reason)} ({ids_text(ids)})"
        for (_, status, backend, reason), ids in sorted(reasons.items())
    ]
