"""Ends a benchmark on the terminal: wrong and slower cells by name, how many there are, and where they are recorded."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from rich.console import Console

from reports import RunFile
from reports.pages.arrangement import KINDS
from reports.pages.notes import reason_notes
from reports.pages.phrases import cells_text, outcome_counts
from reports.pages.rows import BASELINE, CellRow, cell_rows
from reports.render.units import TIMES, count_text, ratio_text
from reports.render.visible import visible

_NAMED = 8
"""Slower cells that are named; the table has all."""


def show_verdicts(run: RunFile, shows: str) -> None:
    """Prints the last lines of a recorded run.

    Args:
        run: The run.
        shows: The command that shows the run again.
    """
    console = Console(stderr=True, highlight=False, soft_wrap=True, markup=False)
    rows = cell_rows(run.records)
    slower = sorted(filter(KINDS["slower"], rows), key=lambda row: -(row.ratio or 0))
    if slower:
        console.print(visible(f"slower than {BASELINE}: {_names(slower)}"), style="yellow")
    failed = [row for row in rows if row.status.failed]
    for line in reason_notes(failed):
        console.print(visible(line), style="red")
    if failed:
        operators = dict.fromkeys(row.cell.operator for row in failed)
        words = [*(run.headers[-1].selection or {}).get("source", []), "--device", failed[0].cell.platform]
        words += [word for operator in operators for word in ("--operator", operator)]
        console.print(visible(f"Find out why: kernel-bridge validate {shlex.join(words)}"))
    counts = outcome_counts(row.status for row in rows) | {f"slower than {BASELINE}": len(slower)}
    verdicts = ", ".join(f"{count_text(count)} {name}" for name, count in counts.items() if count)
    console.print(f"{cells_text(len(rows))}: {verdicts}; recorded in {run.path}; show them again: {shows}")


def _names(rows: Sequence[CellRow]) -> str:
    named = [f"{row.cell.id} {ratio_text(row.ratio)}{TIMES}" for row in rows[:_NAMED]]
    return ", ".join([*named, *([f"and {count_text(len(rows) - _NAMED)} more"] if len(rows) > _NAMED else [])])
