"""Implements the commands that read recorded runs: ``show``, ``compare`` and ``runs``."""

import argparse
import sys
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reports.errors import DamagedLineWarning, ReportError, RunNotFound, RunUnreadable
from reports.options import EXIT_HELP, Exit, Parser, add_output, add_selection
from reports.records.cell import short_dtype
from reports.records.record import Record, last_by_cell
from reports.records.store import find_run, list_runs, read_run, run_id, runs_directory

if TYPE_CHECKING:
    from reports.render.page import Page

_RUN_HELP = "a path, a run id, the beginning of one, 'latest' or 'previous'"


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs ``python -m reports`` and returns its exit code."""
    parser = Parser("python -m reports", description="Show recorded runs.", epilog=EXIT_HELP, formatter_class=_RAW)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    add_commands(commands, runs="list")
    options = parser.parse_args(arguments)
    return run(options)


def run(options: argparse.Namespace) -> int:
    """Runs the command that parsed options name. An error takes one line on standard error."""
    from reports.render.frame_files import check_export, export
    from reports.render.page import show

    try:
        check_export(options.export)
        page, code = options.command(options)
        show(page, options)
        if options.export:
            export(page.frame, page.json_columns, options.export)
    except ReportError as error:
        print(f"{options.prog}: {error}", file=sys.stderr)
        return int(Exit.COULD_NOT_RUN)
    return int(code)


_RAW = argparse.RawDescriptionHelpFormatter


def add_commands(commands: Any, runs: str = "runs") -> None:
    """Adds the commands to a parser's subparsers.

    Args:
        commands: The result of ``add_subparsers``.
        runs: The name of the command that lists runs.
    """

    def add(name: str, text: str, command: Callable[[argparse.Namespace], tuple["Page", Exit]]) -> Any:
        parser = commands.add_parser(name, help=text, description=text, epilog=EXIT_HELP, formatter_class=_RAW)
        parser.set_defaults(command=command, prog=parser.prog, reads_runs=True)
        return parser

    show = add("show", "show a recorded run again: times and ratios to jnp, verdicts, or costs of calls", _show)
    show.add_argument("run", nargs="?", default="latest", metavar="RUN", help=f"{_RUN_HELP} (default)")
    show.add_argument("--accuracy", action="store_true", help="add the share of the error bound used")
    show.add_argument("--stages", action="store_true", help="add trace, lower, compile and first-call times")
    comparison = add("compare", "compare the times of two recorded runs, cell by cell", _compare)
    comparison.add_argument("base", metavar="BASE", help=_RUN_HELP)
    comparison.add_argument("head", metavar="HEAD", help=_RUN_HELP)
    listing = add(runs, "list the recorded runs, oldest first", _list)
    for parser in (show, comparison):
        add_selection(parser)
    for parser in (show, comparison, listing):
        add_output(parser)
        parser.add_argument("--export", metavar="FILE", help="write the numbers to this .csv, .json or .parquet file")


def _show(options: argparse.Namespace) -> tuple["Page", Exit]:
    from reports.pages.run_page import page_of

    records = _select(_read(find_run(options.run, options.runs)), options)
    failed = Exit.WRONG if any(record.status.failed for record in last_by_cell(records)) else Exit.FINE
    return page_of(records, options.accuracy, options.stages), failed


def _compare(options: argparse.Namespace) -> tuple["Page", Exit]:
    from reports.pages.compare import Verdict, compare
    from reports.pages.compare_table import comparison_frame, comparison_table
    from reports.render.page import Page

    base, head = (_select(_read(find_run(name, options.runs)), options) for name in (options.base, options.head))
    comparisons = compare(base, head)
    table = comparison_table(comparisons, base[-1].run, head[-1].run)
    page = Page((table,), comparison_frame(comparisons))
    if any(one.head_status is not None and one.head_status.failed for one in comparisons):
        return page, Exit.WRONG
    if not any(one.verdict is Verdict.COMPARED for one in comparisons):
        print(f"{options.prog}: no cell of the two runs could be compared; the notes say why.", file=sys.stderr)
        return page, Exit.COULD_NOT_RUN
    return page, Exit.FINE


def _list(options: argparse.Namespace) -> tuple["Page", Exit]:
    from reports.pages.run_table import run_table
    from reports.render.page import Page

    runs: dict[str, list[Record] | ReportError] = {}
    for path in list_runs(options.runs):
        try:
            runs[run_id(path)] = _read(path)
        except ReportError as error:
            # One bad file must not hide the others.
            runs[run_id(path)] = error
            print(f"{options.prog}: {error}", file=sys.stderr)
    return Page.of([run_table(runs, str(runs_directory(options.runs)))]), Exit.FINE


def _read(path: Path) -> list[Record]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", DamagedLineWarning)
        records = read_run(path)
    for warning in caught:
        print(f"kernel-bridge: warning: {warning.message}", file=sys.stderr)
    if not records:
        raise RunUnreadable(f"{path}: holds no record. The run died before its first cell ended; run it again.")
    return records


def _select(records: list[Record], options: argparse.Namespace) -> list[Record]:
    """Returns the records that the options select. The cells that ratios refer to stay."""
    from reports.pages.rows import BASELINE

    wanted = {
        "operator": options.operator,
        "backend": options.backend,
        "dtype": [short_dtype(name) for name in options.dtype],
        "size": options.size,
    }
    references = {BASELINE, *(record.dispatch.reference for record in records if record.dispatch)}
    selected = records
    for name, values in wanted.items():
        known = {_value(record, name) for record in records}
        unknown = [value for value in values if value not in known]
        if unknown:
            listed = ", ".join(map(str, sorted(known)))
            raise RunNotFound(f"{name} {unknown[0]!r} is not in this run (it has: {listed}).")
        if values:
            kept = {*values} | (references if name == "backend" else set())
            selected = [record for record in selected if _value(record, name) in kept]
    if not selected:
        raise RunNotFound("no cell of this run fits all of the options. Leave one out.")
    return selected


def _value(record: Record, name: str) -> Any:
    value = getattr(record.cell, name)
    return short_dtype(value) if name == "dtype" else value
