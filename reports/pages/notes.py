"""Writes the notes below a table that say how its cells were timed and why some did not pass."""

from collections import Counter, defaultdict
from collections.abc import Sequence

from reports.pages.phrases import counted, ids_text, outcome_counts, shorten, span_text
from reports.pages.rows import CellRow
from reports.records.status import Status
from reports.render.units import count_text


def count_note(rows: Sequence[CellRow]) -> str:
    """Returns the numbers of cells that passed, failed and were skipped."""
    counts = outcome_counts(row.status for row in rows)
    return "cells: " + ", ".join(f"{count_text(count)} {name}" for name, count in counts.items())


def method_notes(rows: Sequence[CellRow]) -> list[str]:
    """Returns how times were taken, in how many processes, and why sampling stopped."""
    timed = [(row.cell.id, row.timing) for row in rows if row.timing]
    if not timed:
        return []
    methods = Counter(f"{timing.method}, cache {timing.cache}" for _, timing in timed)
    stops = Counter(timing.stop for _, timing in timed)
    fewest, most = (end(len(timing.samples_ns) for _, timing in timed) for end in (min, max))
    processes = [end(len(timing.processes) for _, timing in timed) for end in (min, max)]
    return [
        f"method: {counted(methods)}; {span_text(fewest, most)} samples per cell, in {span_text(*processes)} processes;"
        f" stopped on {counted(stops)}"
    ]


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
