"""Implements ``compare``: of two recorded runs, or of two revisions that it times in turns."""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

from rich.console import Console

from reports.options import Exit
from reports.render.visible import visible
from reports.statistics.verdict_codes import FALSE_DISCOVERIES
from suites.cells.selection import Selection
from suites.errors import RevisionError
from suites.revisions.repository import SHORT
from suites.revisions.sides import make_sides
from suites.sessions.alternation import Measured, measure
from suites.sessions.compared import TwoRevisions, TwoRuns, find_compared, split_names
from suites.sessions.events import Busy, Event, Prepared, Started, TurnEnded


def compare(options: argparse.Namespace) -> Exit:
    """Compares the runs or the revisions that the options name, and shows the table.

    Raises:
        RevisionError: A name stands for nothing, or a revision cannot be timed.
        ReportError: A run cannot be read.
    """
    from reports.cli import compare_runs

    base, head, files = split_names(options.names)
    selection = selected(options, files)
    found = find_compared(base, head, selection, options.runs)
    if isinstance(found, TwoRuns):
        if selection.sources:
            raise RevisionError(f"two runs are compared as they were recorded: leave {selection.sources[0]} out.")
        options.base, options.head = found.base, found.head
        return Exit(compare_runs(options))
    measured = measure_revisions(found, selection, options, minutes=options.minutes, q=FALSE_DISCOVERIES)
    options.base, options.head = measured.base, measured.head
    code = Exit(compare_runs(options))
    say_recorded(options, measured)
    return code


def selected(options: argparse.Namespace, files: tuple[str, ...]) -> Selection:
    """Returns the selection of ``compare`` and ``gate``: operators are named by files after the names, or by option."""
    chosen = Selection.of(options)
    return replace(chosen, sources=(*files, *options.operators), device=options.device or "cpu")


def measure_revisions(
    found: TwoRevisions, selection: Selection, options: argparse.Namespace, *, minutes: float, q: float
) -> Measured:
    """Makes both revisions ready, times them in turns, and says on standard error how it goes.

    Raises:
        RevisionError: A revision cannot be made ready, or cannot be timed.
    """
    console = Console(stderr=True, highlight=False)

    def say(text: str) -> None:
        console.print(visible(f"kernel-bridge: {text}"), markup=False, soft_wrap=True)

    scratch = Path(tempfile.mkdtemp(prefix="kernel-bridge-revisions-")).resolve()
    try:
        say(f"comparing {found.base[:SHORT]} (base) with {found.head[:SHORT]} (head) on {selection.device}")
        with console.status("installing and loading both revisions") as status:
            sides = make_sides(
                found.repository, found.base, found.head, selection, scratch, takes_changes=found.takes_changes
            )
            for note in sides.notes:
                say(f"note: {note}")
            say(f"timing both in turns for {minutes:g} minutes at most; each kernel is checked first")
            return measure(
                sides, selection, seconds=60 * minutes, q=q, timeout_s=options.timeout, verbose=options.verbose,
                runs=options.runs, say=say, on_event=lambda event: status.update(_doing(event) or status.status),
            )  # fmt: skip
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def say_recorded(options: argparse.Namespace, measured: Measured) -> None:
    """Says where the runs are, and why there are fewer processes than a verdict needs."""
    if measured.note:
        print(f"{options.prog}: {measured.note}", file=sys.stderr)
    print(
        f"{measured.processes} processes of each side, recorded in {measured.base} (base) and {measured.head} (head)",
        file=sys.stderr,
    )


def _doing(event: Event) -> str:
    match event:
        case Busy(what):
            return visible(what)
        case Started(cell):
            return visible(f"compiling {cell.id}")
        case Prepared(result):
            return visible(f"compiled {result.cell.id}")
        case TurnEnded(results) if results:
            return visible(f"timing {results[0].cell.operator}")
    return ""
