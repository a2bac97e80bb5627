"""Writes the short table of the README: on each machine, how fast and how right the kernels of each backend are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from reports.errors import ReportError
from reports.pages.first_places import contests
from reports.pages.phrases import outcome_counts
from reports.pages.rows import BASELINE, CellRow, backends_of
from reports.pages.run_notes import device_name
from reports.render.units import ABSENT, count_text, interval_text, ratio_text
from reports.statistics.means import mean_across_processes
from reports.web.run_choice import RunKind

BEGIN, END = "<!-- measured: begin -->", "<!-- measured: end -->"
"""The marks around the table."""


def measured_table(newest: Mapping[tuple[RunKind, str], Sequence[CellRow]]) -> str:
    """Returns the table as Markdown, with a line below it that names the runs.

    Args:
        newest: The cells of the newest run of each kind and platform.
    """
    lines = [
        f"| device | backend | cells passed | time / {BASELINE}, 95% interval | fastest alone | tied first |",
        "| --- | --- | ---: | ---: | ---: | ---: |",
    ]
    named = []
    for platform in ("cpu", "cuda"):
        rows = newest.get((RunKind.TIMES, platform), ())
        if not rows:
            continue
        found = list(contests(rows).values())
        alone = Counter(contest.winners[0].cell.backend for contest in found if not contest.is_tie)
        tied = Counter(row.cell.backend for contest in found if contest.is_tie for row in contest.winners)
        for backend in backends_of(rows):
            own = [row for row in rows if row.cell.backend == backend]
            counts = outcome_counts(row.status for row in own)
            made = counts["passed"] + counts["failed"]
            places = [count_text(each[backend]) if found else ABSENT for each in (alone, tied)]
            device = device_name(rows[0].run) if backend == backends_of(rows)[0] else ""
            cells = [device, f"`{backend}`", f"{counts['passed']} of {made}", _ratio(own), *places]
            lines.append(f"| {' | '.join(cells)} |")
        contested = f"{len(found)} contests" if found else "one process a cell: no interval, no first place"
        named.append(f"`{rows[0].run.run_id}` ({contested})")
    note = (
        f"Geometric mean; below 1 is faster than XLA ({BASELINE}). A contest is one operator, dtype and size; tied"
        f" backends cannot be told apart. Runs: {', '.join(named)}."
    )
    return "\n".join([*lines, "", note])


def with_table(text: str, table: str) -> str:
    """Returns a text with the table between its marks.

    Raises:
        ReportError: The text lacks a mark.
    """
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ReportError(f"the README has no table to replace: it needs the lines {BEGIN} and {END}.")
    return f"{before}{BEGIN}\n{table}\n{END}{after}"


def _ratio(rows: Sequence[CellRow]) -> str:
    compared = [row.compared for row in rows if row.compared is not None]
    if rows[0].cell.backend == BASELINE or not compared:
        return ABSENT
    mean = mean_across_processes([ratio.paired or (ratio.value,) for ratio in compared])
    return ratio_text(mean.mean) + (f" ({interval_text(mean.low, mean.high)})" if mean.low is not None else "")
