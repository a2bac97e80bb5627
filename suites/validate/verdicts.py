"""Shows the verdicts of a validation: the tables, a line for each verdict, and the command that repeats it."""

from __future__ import annotations

import argparse
import shlex
from collections import Counter
from collections.abc import Sequence

from rich.console import Console

from reports import Record, judge, last_by_cell, load_run, to_frame
from reports.options import Exit
from reports.pages.run_page import doubt_tables, origin_of
from reports.pages.verdicts import validation_tables
from reports.render.job_summary import append_job_summary
from reports.render.page import Page, show
from reports.render.units import count_text
from reports.render.visible import visible
from suites.checks.drawn.session_choices import SEED_FLAG
from suites.checks.judging.reasons import verdict_lines
from suites.checks.register import checks
from suites.processes.session_end import SessionEnd

_WORST_FIRST = ("wrong", "not judged", "passed", "skipped")


def show_verdicts(options: argparse.Namespace, outcome: SessionEnd, *, shows: str, typed: Sequence[str]) -> Exit:
    """Shows a recorded validation on the terminal, and returns its exit code.

    Args:
        options: The options of the command.
        outcome: How the session ended; it has a run file.
        shows: The command that shows the run again.
        typed: The words after ``validate`` that started the session.
    """
    assert outcome.path is not None
    run = load_run(outcome.path)
    judgement, order = judge(run), [check.name for check in checks()]
    doubts = doubt_tables(judgement.lines)
    tables = (*doubts, *validation_tables(run.records, order, failures=False))
    show(Page(tables, lambda: to_frame(run.records)), argparse.Namespace(format=options.format, summary=None))
    if options.summary:
        tables = (*doubts, *validation_tables(run.records, order))
        append_job_summary(tables, options.summary, origin_of(run.records))
    console = Console(highlight=False, soft_wrap=True, markup=False)
    passes, failures = verdict_lines(run)
    for line in (*judgement.notes, *passes):
        console.print(visible(line))
    for line in failures:
        console.print(visible(line), style="red")
    words = [*typed, *([] if "--seed" in typed else ["--seed", str(run.headers[0].flags.get(SEED_FLAG))])]
    words += ["--", *options.pytest] if options.pytest else []
    console.print(f"{count_text(len(run.records))} checks, recorded in {outcome.path}; show them again: {shows}")
    console.print(f"{_counts(last_by_cell(run.records))}. Repeat: kernel-bridge validate {shlex.join(words)}")
    return judgement.exit


def _counts(records: Sequence[Record]) -> str:
    """Returns how many kernels are right and wrong, such as ``3 kernels: 2 passed, 1 wrong``."""
    kernels: dict[tuple[str, str], set[str]] = {}
    for record in records:
        status = record.status
        verdict = "wrong" if status.wrong else "not judged" if status.failed else status.value.lower()
        kernels.setdefault((record.cell.operator, record.cell.backend), set()).add(verdict)
    counts = Counter(next(verdict for verdict in _WORST_FIRST if verdict in several) for several in kernels.values())
    verdicts = ", ".join(f"{counts[verdict]} {verdict}" for verdict in reversed(_WORST_FIRST) if counts[verdict])
    return f"{count_text(len(kernels))} kernel{'s' if len(kernels) != 1 else ''}: {verdicts}"
