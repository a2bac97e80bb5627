"""Runs the checks on broken kernels, and prints which check catches which kernel.

``python -m suites.validate.broken_kernels`` starts it.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

from reports.judgement import judge
from reports.options import EXIT_HELP, Exit, Parser, add_options
from reports.pages.kills import kill_tables
from reports.records.broken_kernels import survivors
from reports.records.record import Record, last_by_cell
from reports.records.run_file import load_run
from reports.records.status import Status
from reports.records.store import RUNS_VARIABLE
from reports.render.page import Page, check_summary, show
from reports.render.visible import visible
from suites.cells.selection import Selection
from suites.errors import SelectionError
from suites.mutants import mutants
from suites.validate.command import validate

LIMIT_S = 100.0
"""Seconds for a cell. A broken kernel may wait forever; it gets less time than a user's kernel."""

DESCRIPTION = "Run every check on every broken kernel, and print which check catches which. It fails if one survives."
EXAMPLES = """
examples:
  nox -s mutants                                   all, in one process for each core
  nox -s mutants -- -n 8 --backend warp            those of one language, in 8 processes
  nox -s mutants -- --resume latest                go on after an interruption
"""


def main(arguments: list[str] | None = None) -> int:
    """Runs the checks on the selected mutants; returns 1 if one survived, 3 if the run is incomplete."""
    parser = Parser(
        "nox -s mutants --", description=DESCRIPTION, epilog=EXIT_HELP + EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    add_options(
        parser, "operator", "backend", "dtype", "size", "device", "profile", "resume", "jobs", "seed", "format",
        "summary", "runs",
    )  # fmt: skip
    words = sys.argv[1:] if arguments is None else list(arguments)
    end = words.index("--") if "--" in words else len(words)  # later arguments are for pytest
    options = parser.parse_args(words[:end])
    options.operators = ["suites.mutants"]
    options.profile = options.profile or "full"
    if options.runs:
        os.environ[RUNS_VARIABLE] = options.runs
    check_summary(options.summary)
    try:
        ended = validate(
            Selection.of(options),
            jobs=options.jobs,
            timeout_s=LIMIT_S,
            resume=options.resume,
            quietly=True,
            seed=options.seed,
            more=words[end + 1 :],
        )
        if ended.path is None or ended.refusal:
            raise SelectionError(ended.refusal or f"pytest ended with exit code {ended.code}.")
    except SelectionError as error:
        print(visible(f"{parser.prog}: {error}"), file=sys.stderr)
        return int(Exit.COULD_NOT_RUN)
    run = load_run(ended.path)
    judgement = judge(run)
    show(Page.of(kill_tables(run.records)), options)
    lines = list(judgement.lines)
    if judgement.exit is Exit.COULD_NOT_RUN:
        lines.append(f"Go on with: nox -s mutants -- --resume {ended.path.stem}")
    else:
        lines += [f"survived: {name}" for name in survivors(run.records)]
        lines += missed(run.records)
    for line in lines:
        print(visible(line), file=sys.stderr)
    return int(judgement.exit if judgement.exit is not Exit.FINE or not lines else Exit.WRONG)


def missed(records: Sequence[Record]) -> list[str]:
    """Returns a line for each broken kernel that was caught, but by none of the checks that must catch it."""
    ran: dict[str, set[str]] = {}
    caught: dict[str, set[str]] = {}
    for record in last_by_cell(records):
        if record.status is not Status.SKIPPED:
            ran.setdefault(record.cell.operator, set()).add(record.cell.mode)
        if record.status.wrong:
            caught.setdefault(record.cell.operator, set()).add(record.cell.mode)
    needed = {name: set(mutant.caught_by) for name, mutant in mutants().items() if name in caught}
    return [
        f"{name} was not caught by {' or '.join(sorted(checks))}, which must catch it"
        for name, checks in needed.items()
        if checks <= ran[name] and not checks & caught[name]
    ]


if __name__ == "__main__":
    sys.exit(main())
