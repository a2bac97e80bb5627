"""Implements the commands that read recorded runs: ``show`` and ``report``; and the page of two compared runs."""

import argparse
import gc
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reports.errors import ReportError, RunNotFound, RunUnreadable
from reports.judgement import Judgement, judge
from reports.options import CELLS, RUN_HELP, Exit, add_command
from reports.records.cell import Cell, short_dtype
from reports.records.record import Record
from reports.records.run_file import RunFile, load_run
from reports.records.store import find_run, list_runs, run_id, runs_directory
from reports.render.visible import visible

if TYPE_CHECKING:
    from reports.render.page import Page


def run(options: argparse.Namespace) -> int:
    """Runs the command that parsed options name. An error takes one line on standard error."""
    try:
        page, code = options.command(options)
        from reports.render.page import show  # late: a run that is missing is said before pandas is imported

        show(page, options)
    except ReportError as error:
        _say(options, str(error))
        return int(Exit.COULD_NOT_RUN)
    except (ArithmeticError, AttributeError, LookupError, MemoryError, OSError, TypeError, ValueError) as error:
        # Run files are untrusted. Any unexpected error becomes one line and exit code 3.
        _say(options, f"a run cannot be shown: {type(error).__name__}: {error}. Please report this file.")
        return int(Exit.COULD_NOT_RUN)
    return int(code)


def add_commands(commands: Any) -> None:
    """Adds the commands to a parser's subparsers, the result of ``add_subparsers``."""
    text = "list the recorded runs, or show one again: times and ratios to jnp, or verdicts"
    options = (*CELLS, "sort", "only", "details", "format", "runs")
    example = "show latest --sort ratio --only slower"
    show = add_command(commands, "show", text, example, *options, command=_show, reads_runs=True)
    show.add_argument("run", nargs="?", metavar="RUN", help=f"{RUN_HELP} (default: list the runs of the folder)")
    text = "write a page with pictures of recorded runs: one HTML file that loads nothing"
    own, example = (*CELLS, "output", "runs"), "report latest --output page.html"
    report = add_command(commands, "report", text, example, *own, command=_report, reads_runs=True)
    report.add_argument("run_names", nargs="*", default=["latest"], metavar="RUN", help=f"{RUN_HELP} (default: latest)")


def _show(options: argparse.Namespace) -> tuple["Page", Exit]:
    if options.run is None:
        return _list(options)
    run = read_recorded(find_run(options.run, options.runs))
    from reports.pages.run_page import list_page, page_of

    records = select_records(run.records, options)
    judgement = _judge(run, records, options)
    if options.sort or options.only or options.details:
        page = list_page(records, options.sort, options.only, judgement.lines, details=options.details)
        return page, judgement.exit
    return page_of(records, judgement.lines), judgement.exit


def _report(options: argparse.Namespace) -> tuple["Page", Exit]:
    runs = {name: read_recorded(find_run(name, options.runs)) for name in dict.fromkeys(options.run_names)}
    from reports.pages.run_table import run_table
    from reports.render.page import Page
    from reports.web.page_file import page_text

    # One run can have several names.
    unique = list({run.path.resolve(): run for run in runs.values()}.values())
    text = page_text([(run, select_records(run.records, options)) for run in unique])
    try:
        Path(options.output).write_text(text, encoding="utf-8")
    except OSError as error:
        raise ReportError(f"--output {options.output}: cannot be written: {error.strerror}.") from error
    for run in unique:
        for line in judge(run).lines:
            print(f"kernel-bridge: note: {visible(f'{run.path}: {line}')}", file=sys.stderr)
    print(visible(f"{options.output}: {len(text.encode()) / 1e6:.1f} MB. Open it in a browser."), file=sys.stderr)
    # Wrong cells in the page do not fail this command: the command that recorded them, and `show`, have that exit code.
    return Page.of([run_table({str(run.run_id): run for run in unique}, options.output)]), Exit.FINE


def comparison_page(
    runs: tuple[RunFile, RunFile], options: argparse.Namespace, notes: Sequence[str] = ()
) -> tuple["Page", Exit, list[str]]:
    """Returns the page of a comparison, its exit code, and its last lines: which cells are worse, and what is open.

    Args:
        runs: Base and head.
        options: The options that select cells.
        notes: Further notes below the table.

    Raises:
        RunNotFound: No cell fits the options.
    """
    from reports.pages.alike import are_interleaved
    from reports.pages.compare import compare
    from reports.pages.compare_table import comparison_frame, comparison_table, verdict_lines
    from reports.pages.phrases import ids_text
    from reports.pages.run_page import doubt_tables
    from reports.render.page import Page
    from reports.statistics.verdict_codes import Verdict

    base, head = select_pair(runs, options)
    headers = runs[0].headers[-1], runs[1].headers[-1]
    interleaved = are_interleaved(*headers)
    comparisons = compare(base, head, interleaved=interleaved)
    # Of base, only missing and damaged results count: its wrong cells are fixed in head, or wrong there too.
    lost = [line for line in judge(runs[0], base).lines if line.startswith(("DAMAGED", "INCOMPLETE"))]
    doubts = [f"{runs[0].path}: {line}" for line in lost]
    if head:
        judged = judge(runs[1], head, selects=lambda cell: _is_selected(cell, options))
        doubts += [f"{runs[1].path}: {line}" for line in judged.lines]
    absent = [one for one in comparisons if one.verdict is Verdict.MISSING]
    # Missing cells of head have a line of their own.
    undecided = [one for one in comparisons if one.is_undecided and one.verdict is not Verdict.MISSING]
    for text, cells in (("head has no result for", absent), ("nothing could be decided about", undecided)):
        if cells:
            doubts.append(
                f"{text} {len(cells):,} of {len(comparisons):,} cells: {ids_text([o.cell.id for o in cells])}"
            )
    if not any(one.is_compared or one.verdict is Verdict.NEW for one in comparisons):
        doubts.append("no cell of the two runs could be compared; the notes say why.")
    table = comparison_table(comparisons, *headers, interleaved=interleaved, notes=notes)
    origin = f"kernel-bridge compare {headers[0].run_id} {headers[1].run_id}"
    page = Page((*doubt_tables(doubts, "Not decided"), table), comparison_frame(comparisons), origin=origin)
    is_worse = any(one.is_bad for one in comparisons)
    code = Exit.WRONG if is_worse else Exit.COULD_NOT_RUN if doubts else Exit.FINE
    return page, code, [*doubts, *verdict_lines(comparisons)]


def _list(options: argparse.Namespace) -> tuple["Page", Exit]:
    from reports.pages.run_table import run_table
    from reports.render.page import Page

    runs: dict[str, RunFile | ReportError] = {}
    code = Exit.FINE
    for path in list_runs(options.runs):
        try:
            run = runs[run_id(path)] = load_run(path)
        except ReportError as error:
            # One bad file must not hide the others.
            runs[run_id(path)] = error
            _say(options, str(error))
            code = Exit.COULD_NOT_RUN
            continue
        if run.problems:
            _say(options, f"DAMAGED: {run.problems[0]}")
            code = Exit.COULD_NOT_RUN
    return Page.of([run_table(runs, str(runs_directory(options.runs)))]), code


def read_recorded(path: Path) -> RunFile:
    """Reads a run that holds at least one record.

    Raises:
        RunUnreadable: It cannot be read, or has no record.
    """
    run = load_run(path)
    gc.freeze()  # the run stays in memory to the end of the command, so Python need not search it for cycles
    if not run.records:
        first = f"{run.problems[0]}; the file" if run.problems else f"{path}:"
        raise RunUnreadable(f"{first} holds no record. The run died before its first cell ended; run it again.")
    return run


def _judge(run: RunFile, records: list[Record], options: argparse.Namespace) -> Judgement:
    """Judges the selected records of a run, and prints its missing and damaged parts."""
    judgement = judge(run, records, selects=lambda cell: _is_selected(cell, options))
    for line in judgement.lines:
        _say(options, f"{run.path}: {line}")
    for note in judgement.notes:
        print(f"kernel-bridge: note: {visible(f'{run.path}: {note}')}", file=sys.stderr)
    return judgement


def _say(options: argparse.Namespace, text: str) -> None:
    print(visible(f"{options.prog}: {text}"), file=sys.stderr)


def _is_selected(cell: Cell, options: argparse.Namespace) -> bool:
    return all(not values or _value(cell, name) in values for name, values in _selected_values(options).items())


def _selected_values(options: argparse.Namespace) -> dict[str, list[Any]]:
    dtypes = [short_dtype(name) for name in options.dtype]
    return {"operator": options.operator, "backend": options.backend, "dtype": dtypes, "size": options.size}


def select_pair(runs: tuple[RunFile, RunFile], options: argparse.Namespace) -> tuple[list[Record], list[Record]]:
    """Returns the records of base and of head that the options select. One of the two may have none of them.

    Raises:
        RunNotFound: Neither run has a cell that fits the options.
    """
    chosen = {id(record) for record in select_records([*runs[0].records, *runs[1].records], options)}
    base, head = ([record for record in run.records if id(record) in chosen] for run in runs)
    return base, head


def select_records(records: list[Record], options: argparse.Namespace) -> list[Record]:
    """Returns the records that the options select, and the cells of the baseline for their ratios."""
    from reports.pages.rows import BASELINE

    selected = records
    for name, values in _selected_values(options).items():
        existing = {_value(record.cell, name) for record in records}
        unknown = [value for value in values if value not in existing]
        if unknown:
            names = ", ".join(map(str, sorted(existing)))
            raise RunNotFound(f"{name} {unknown[0]!r} is not in this run (it has: {names}).")
        if values:
            allowed = {*values, BASELINE} if name == "backend" else {*values}
            selected = [record for record in selected if _value(record.cell, name) in allowed]
    if not selected:
        raise RunNotFound("no cell of this run fits all of the options. Leave one out.")
    return selected


def _value(cell: Cell, name: str) -> Any:
    value = getattr(cell, name)
    return short_dtype(value) if name == "dtype" else value
