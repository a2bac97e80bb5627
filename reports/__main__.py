"""Run names on the command line in, tables on standard output out: `python -m reports --help`."""

import argparse
import os
import shutil
import sys
import warnings
from collections.abc import Iterable, Sequence
from enum import IntEnum
from pathlib import Path
from typing import NoReturn

from reports.compare import Verdict, compare
from reports.errors import DamagedLineWarning, ReportError, RunNotFound, RunUnreadable
from reports.layout import Table
from reports.record import Record, last_by_cell
from reports.store import RUNS_VARIABLE, find_run, list_runs, read_run, run_id, runs_directory


class Exit(IntEnum):
    """What the exit code says."""

    FINE = 0
    WRONG = 1
    SLOWER = 2
    INFRASTRUCTURE = 3


EXIT_HELP = """exit codes:
  0  fine
  1  a cell is wrong (of HEAD, for compare)
  2  a cell is slower (reserved for the gate, not yet given)
  3  infrastructure: bad arguments, no such run, unreadable, nothing to show or compare
"""


class Parser(argparse.ArgumentParser):
    """An ArgumentParser whose errors exit with 3: argparse's own 2 means slower here."""

    def error(self, message: str) -> NoReturn:
        self.exit(Exit.INFRASTRUCTURE, f"{self.prog}: {message}. See {self.prog} --help.\n")


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line and returns its exit code."""
    options = _parser().parse_args(arguments)
    try:
        tables, code = options.command(options)
        _print(_render(tables, options))
    except ReportError as error:
        print(f"reports: {error}", file=sys.stderr)
        return Exit.INFRASTRUCTURE
    return int(code)


def _parser() -> Parser:
    parser = Parser(
        prog="python -m reports",
        description="Tables from recorded runs.",
        epilog=EXIT_HELP,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    shared = Parser(add_help=False)
    shared.add_argument("--format", choices=("terminal", "markdown"), default="terminal")
    shared.add_argument("--width", type=_width, help="characters per line (default: the terminal's; markdown: 120)")
    shared.add_argument("--runs", metavar="DIR", help=f"folder of the runs (default: ${RUNS_VARIABLE}, else runs/)")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    def add(name: str, text: str) -> Parser:
        return commands.add_parser(
            name,
            help=text,
            description=text,
            parents=[shared],
            epilog=EXIT_HELP,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )

    run_help = "a path, a run id, the beginning of one, or 'latest'"
    show = add("show", "Times, ratios to jnp and a summary of one run; the verdicts of a validation.")
    show.add_argument("run", nargs="?", default="latest", metavar="RUN", help=f"{run_help} (default)")
    show.add_argument("--accuracy", action="store_true", help="add the share of the error budget used")
    show.add_argument("--stages", action="store_true", help="add trace, lower, compile and first-call times")
    show.add_argument("--operator", action="append", metavar="NAME", help="only this operator; may be repeated")
    show.add_argument(
        "--backend",
        action="append",
        metavar="NAME",
        help="only this backend (jnp stays for ratios); may be repeated",
    )
    show.set_defaults(command=_show)
    comparison = add("compare", "Medians of two runs, cell by cell.")
    comparison.add_argument("base", metavar="BASE", help=run_help)
    comparison.add_argument("head", metavar="HEAD", help=run_help)
    comparison.set_defaults(command=_compare)
    add("list", "The runs of a folder, oldest first.").set_defaults(command=_list)
    return parser


def _show(options: argparse.Namespace) -> tuple[list[Table], Exit]:
    from reports.frame import BASELINE, to_frame
    from reports.tables import accuracy_tables, benchmark_tables, stage_tables
    from reports.validation import is_validation, validation_tables

    path = find_run(options.run, options.runs)
    records = _select(_read(path), options.operator, options.backend, BASELINE)
    frame = to_frame(records)
    failed = Exit.WRONG if any(record.status.failed for record in last_by_cell(records)) else Exit.FINE
    if is_validation(frame):
        return validation_tables(frame), failed
    tables = benchmark_tables(frame)
    tables += accuracy_tables(frame) if options.accuracy else []
    tables += stage_tables(frame) if options.stages else []
    return tables, failed


def _compare(options: argparse.Namespace) -> tuple[list[Table], Exit]:
    from reports.compare_table import comparison_table

    base, head = (_read(find_run(name, options.runs)) for name in (options.base, options.head))
    comparisons = compare(base, head)
    tables = [comparison_table(comparisons, base[-1].run, head[-1].run)]
    if any(comparison.head_status is not None and comparison.head_status.failed for comparison in comparisons):
        return tables, Exit.WRONG
    if not any(comparison.verdict is Verdict.COMPARED for comparison in comparisons):
        print("reports: no cell of the two runs could be compared; the notes say why.", file=sys.stderr)
        return tables, Exit.INFRASTRUCTURE
    return tables, Exit.FINE


def _list(options: argparse.Namespace) -> tuple[list[Table], Exit]:
    from reports.run_table import run_table

    runs: dict[str, list[Record] | ReportError] = {}
    for path in list_runs(options.runs):
        try:
            runs[run_id(path)] = _read(path)
        except ReportError as error:
            # One bad file must not hide the others.
            runs[run_id(path)] = error
            print(f"reports: {error}", file=sys.stderr)
    return [run_table(runs, str(runs_directory(options.runs)))], Exit.FINE


def _read(path: Path) -> list[Record]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", DamagedLineWarning)
        records = read_run(path)
    for warning in caught:
        print(f"reports: warning: {warning.message}", file=sys.stderr)
    if not records:
        raise RunUnreadable(f"{path}: holds no record. The run died before its first cell ended; run it again.")
    return records


def _select(
    records: list[Record], operators: list[str] | None, backends: list[str] | None, baseline: str
) -> list[Record]:
    for name, wanted in (("operator", operators), ("backend", backends)):
        known = {getattr(record.cell, name) for record in records}
        unknown = sorted({*(wanted or ())} - known)
        if unknown:
            raise RunNotFound(f"{name} {unknown[0]!r} is not in this run (it has: {', '.join(sorted(known))}).")
    return [
        record
        for record in records
        if (operators is None or record.cell.operator in operators)
        and (backends is None or record.cell.backend in (*backends, baseline))
    ]


def _render(tables: Iterable[Table], options: argparse.Namespace) -> str:
    from reports import markdown, terminal

    if options.format == "markdown":
        return markdown.render(tables, options.width or markdown.WIDTH)
    width = options.width or shutil.get_terminal_size((100, 24)).columns
    return terminal.render(tables, width, color=sys.stdout.isatty() and not os.environ.get("NO_COLOR"))


def _print(text: str) -> None:
    # A stream that cannot show the symbols used here should lose them, not the table.
    reconfigure = getattr(sys.stdout, "reconfigure", None)
    if reconfigure is not None:
        reconfigure(errors="replace")
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader (`head`, a pager) has had enough. Closing the stream would raise once more.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _width(text: str) -> int:
    width = int(text)
    if width < 40:
        raise argparse.ArgumentTypeError(f"{width} characters are too few for a table; expected at least 40")
    return width


if __name__ == "__main__":
    sys.exit(main())
