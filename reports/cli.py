"""Implements the commands that read recorded runs: ``show``, ``report``, ``compare``, ``history`` and their like."""

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reports.errors import ReportError, RunNotFound, RunUnreadable
from reports.judgement import Judgement, judge
from reports.options import EXIT_HELP, Exit, Parser, add_arrangement, add_output, add_selection, percent, whole
from reports.records.cell import Cell, short_dtype
from reports.records.record import Record
from reports.records.run_file import Completeness, RunFile, load_run
from reports.records.store import find_run, list_runs, run_id, runs_directory
from reports.render.visible import visible

if TYPE_CHECKING:
    from reports.render.page import Page

REPORT_FILE = "report.html"
"""The file that ``report`` writes by default."""

RUN_HELP = "a path, a run id, the beginning of one, 'latest' or 'previous'"


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
        if not _exports_run(options):
            check_export(options.export)
        page, code = options.command(options)
        show(page, options)
        if options.export and not _exports_run(options):
            export(page.frame, page.json_columns, options.export)
    except ReportError as error:
        _say(options, str(error))
        return int(Exit.COULD_NOT_RUN)
    except (ArithmeticError, AttributeError, LookupError, MemoryError, OSError, TypeError, ValueError) as error:
        # A file is input from outside. Whatever no check foresaw in it is a failure of one line, and never a success.
        _say(options, f"cannot show {_named(options)}: {type(error).__name__}: {error}. Please report this file.")
        return int(Exit.COULD_NOT_RUN)
    return int(code)


def compare_runs(options: argparse.Namespace) -> int:
    """Compares the runs that `options.base` and `options.head` name, and returns the exit code, like `run`."""
    options.command = _compare
    return run(options)


def _exports_run(options: argparse.Namespace) -> bool:
    """Returns whether `show` itself writes the file of ``--export``: a format of runs, and not of a table."""
    from reports.formats.export_run import is_run_format

    return bool(options.export) and options.command is _show and is_run_format(options.export)


def _named(options: argparse.Namespace) -> str:
    names = [str(getattr(options, name)) for name in ("run", "base", "head") if getattr(options, name, None)]
    names += getattr(options, "run_names", [])
    return " and ".join(names) or "the runs"


_RAW = argparse.RawDescriptionHelpFormatter


def _nothing_known(platform: str) -> tuple[Mapping[str, str], Mapping[str, str]]:
    return {}, {}


def add_commands(
    commands: Any,
    runs: str = "runs",
    *,
    compares: bool = True,
    mutant_facts: Callable[[str], tuple[Mapping[str, str], Mapping[str, str]]] = _nothing_known,
) -> None:
    """Adds the commands to a parser's subparsers.

    Args:
        commands: The result of ``add_subparsers``.
        runs: The name of the command that lists runs.
        compares: Whether to add ``compare``; the command line of the suites has one that also takes revisions.
        mutant_facts: Returns, for a platform, the purpose of each check and the fault of each broken kernel. Records
            do not have them.
    """

    def add(name: str, text: str, command: Callable[[argparse.Namespace], tuple["Page", Exit]]) -> Any:
        parser = commands.add_parser(name, help=text, description=text, epilog=EXIT_HELP, formatter_class=_RAW)
        parser.set_defaults(command=command, prog=parser.prog, reads_runs=True)
        return parser

    show = add("show", "show a recorded run again: times and ratios to jnp, verdicts, or costs of calls", _show)
    show.add_argument("run", nargs="?", default="latest", metavar="RUN", help=f"{RUN_HELP} (default)")
    show.add_argument("--accuracy", action="store_true", help="add the share of the error bound used")
    show.add_argument("--stages", action="store_true", help="add trace, lower, compile and first-call times")
    add_arrangement(show, _SORTS, _KINDS)
    text = "simulate comparisons with the noise of recorded runs: how often verdicts are false, and what they find"
    calibration = add("calibrate", text, _calibrate)
    calibration.add_argument("run_names", nargs="+", metavar="RUN", help=RUN_HELP)
    _add_simulation(calibration)
    report = add("report", "write a page with pictures of recorded runs: one HTML file that loads nothing", _report)
    report.add_argument("run_names", nargs="*", default=["latest"], metavar="RUN", help=f"{RUN_HELP} (default: latest)")
    report.add_argument("--output", default=REPORT_FILE, metavar="FILE", help="the file (default: %(default)s)")
    show.set_defaults(mutant_facts=mutant_facts)
    report.set_defaults(mutant_facts=mutant_facts, export=None)  # the page has the numbers itself
    past = add("history", "show the runs at which a cell became slower or faster, newest first", _history)
    past.add_argument("run_names", nargs="*", metavar="RUN", help=f"{RUN_HELP} (default: all runs of the folder)")
    past.add_argument("--series", action="store_true", help="add a table of each cell, with its time in each run")
    listing = add(runs, "list the recorded runs, oldest first", _list)
    selecting = [show, report, past, calibration]
    if compares:
        comparison = add("compare", "compare the times of two recorded runs, cell by cell", _compare)
        comparison.add_argument("base", metavar="BASE", help=RUN_HELP)
        comparison.add_argument("head", metavar="HEAD", help=RUN_HELP)
        selecting.append(comparison)
        add_comparison_arrangement(comparison)
    for parser in selecting:
        add_selection(parser)
    for parser in (*selecting, listing):
        add_output(parser)
        if parser is not report:
            formats = ".xml (JUnit), .benchmark.json (pytest-benchmark) or folder/ (asv)"
            add_export(parser, formats if parser is show else "")


_SORTS = ("ratio", "time", "size", "budget")
_KINDS = ("slower", "faster", "ties", "failed", "skipped")
"""The names of `reports.pages.arrangement`, which is slow to import; a test compares them."""


def add_comparison_arrangement(parser: argparse.ArgumentParser) -> None:
    """Adds the options that sort the cells of a comparison, and that show only some of them."""
    from reports.statistics.verdict_codes import ONLY

    add_arrangement(parser, ("ratio", "time"), ONLY)


def add_export(parser: argparse.ArgumentParser, more: str = "") -> None:
    """Adds the option that writes a frame, or a run in `more` formats, to a file."""
    text = "write the numbers to this .csv, .json or .parquet file" + (f"; or the run to {more}" if more else "")
    parser.add_argument("--export", metavar="FILE", help=text)


def _add_simulation(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("simulation")
    text = "processes of each side; may be repeated (default: 4 5 6 7 8 10 12 16)"
    group.add_argument("--processes", action="append", type=whole(1), metavar="N", help=text)
    text = "slowdown to inject, in percent; may be repeated (default: 3 5 10 20)"
    group.add_argument("--slowdown", action="append", type=percent, metavar="P", help=text)
    group.add_argument("--comparisons", type=whole(1), default=1000, metavar="N", help="to simulate (default: 1000)")
    group.add_argument("--seed", type=whole(0), default=0, metavar="S", help="seed of the simulation (default: 0)")
    group.add_argument("--picture", metavar="FILE", help="write the curves to this .svg file")


def _show(options: argparse.Namespace) -> tuple["Page", Exit]:
    from reports.formats.export_run import export_run
    from reports.pages.kills import kill_tables
    from reports.pages.run_page import doubt_tables, list_page, page_of
    from reports.records.broken_kernels import are_mutants
    from reports.render.page import Page

    run = _read(find_run(options.run, options.runs))
    records = _select(run.records, options)
    judgement = _judged(run, records, options)
    if _exports_run(options):
        export_run(run, records, options.export)
    if options.sort or options.only:
        return list_page(records, options.sort, options.only, judgement.lines), judgement.exit
    if are_mutants(records):
        tables = kill_tables(records, *options.mutant_facts(records[0].cell.platform))
        return Page.of([*doubt_tables(judgement.lines), *tables]), judgement.exit
    return page_of(records, options.accuracy, options.stages, judgement.lines), judgement.exit


def _report(options: argparse.Namespace) -> tuple["Page", Exit]:
    from reports.pages.run_table import run_table
    from reports.render.page import Page
    from reports.web.page_file import page_text

    found = {name: _read(find_run(name, options.runs)) for name in dict.fromkeys(options.run_names)}
    # One run can have several names.
    unique = list({run.path.resolve(): run for run in found.values()}.values())
    text = page_text([(run, _select(run.records, options)) for run in unique], mutant_facts=options.mutant_facts)
    try:
        Path(options.output).write_text(text, encoding="utf-8")
    except OSError as error:
        raise ReportError(f"--output {options.output}: cannot be written: {error.strerror}.") from error
    for run in unique:
        for line in judge(run).lines:
            print(f"kernel-bridge: note: {visible(f'{run.path}: {line}')}", file=sys.stderr)
    print(visible(f"{options.output}: {len(text.encode()) / 1e6:.1f} MB. Open it in a browser."), file=sys.stderr)
    # What the page shows has its own exit code: in the command that recorded it, and in `show`.
    return Page.of([run_table({str(run.run_id): run for run in unique}, options.output)]), Exit.FINE


def _compare(options: argparse.Namespace) -> tuple["Page", Exit]:
    from reports.pages.alike import are_interleaved
    from reports.pages.compare import compare
    from reports.pages.compare_table import arranged_comparisons, comparison_frame, comparison_table
    from reports.pages.repeatability import repeatability_notes
    from reports.pages.run_page import doubt_tables
    from reports.render.page import Page
    from reports.statistics.verdict_codes import Verdict

    runs = [_read(find_run(name, options.runs)) for name in (options.base, options.head)]
    base, head = (_select(run.records, options) for run in runs)
    interleaved = are_interleaved(base[-1].run, head[-1].run)
    comparisons = compare(base, head, interleaved=interleaved)
    doubts = [*_lost(runs[0], base, options), *_judged(runs[1], head, options).lines]
    absent = [one for one in comparisons if one.verdict is Verdict.MISSING]
    # What could not be judged in head is said above.
    undecided = [one for one in comparisons if one.is_undecided and one.verdict not in (Verdict.MISSING, Verdict.WRONG)]
    for text, found in (("head has no result for", absent), ("nothing could be decided for", undecided)):
        if found:
            named = ", ".join(one.cell.id for one in found[:3]) + (", ..." if len(found) > 3 else "")
            doubts.append(f"{text} {len(found):,} of {len(comparisons):,} cells: {named}")
            _say(options, doubts[-1])
    if not any(one.is_compared for one in comparisons):
        doubts.append("no cell of the two runs could be compared; the notes say why.")
        _say(options, doubts[-1])
    notes = [] if interleaved else repeatability_notes(base, head)
    chosen = arranged_comparisons(comparisons, options.sort, options.only)
    table = comparison_table(
        comparisons, base[-1].run, head[-1].run, interleaved=interleaved, notes=notes, shown=chosen
    )
    frame = comparison_frame(comparisons if chosen is None else chosen)
    origin = f"kernel-bridge compare {base[-1].run.run_id} {head[-1].run.run_id}"
    page = Page((*doubt_tables(doubts), table), frame, origin=origin)
    # Of base, only what it lost counts: its wrong cells have been fixed, or are wrong in head too.
    if any(one.is_bad for one in comparisons):
        return page, Exit.WRONG
    return page, Exit.COULD_NOT_RUN if doubts else Exit.FINE


def _calibrate(options: argparse.Namespace) -> tuple["Page", Exit]:
    from reports.pages.calibration_table import calibration_frame, calibration_panels, calibration_table
    from reports.pages.recorded_noise import recorded_noise
    from reports.pages.run_notes import device_name
    from reports.render.curves import draw
    from reports.render.page import Page
    from reports.statistics.calibration import calibrate
    from reports.statistics.verdict_codes import FALSE_DISCOVERIES, LARGE, SMALLEST

    found = {name: _read(find_run(name, options.runs)) for name in options.run_names}
    chosen = {name: _select(run.records, options) for name, run in found.items()}
    noise = recorded_noise(chosen)
    header = next(iter(chosen.values()))[-1].run
    platform = header.device.platform
    sizes = options.slowdown or [0.03, 0.05, 0.1, 0.2]
    simulated = [
        calibrate(
            noise, count, sizes, smallest=SMALLEST[platform], large=LARGE[platform], q=FALSE_DISCOVERIES,
            runs=options.comparisons, seed=options.seed,
        )
        for count in options.processes or [4, 5, 6, 7, 8, 10, 12, 16]
    ]  # fmt: skip
    title = f"{platform}: {device_name(header)}"
    recorded = ", ".join(f"{run.records[-1].run.run_id} ({own.shape[1]} processes)"
                         for run, own in zip(found.values(), noise.runs, strict=True))  # fmt: skip
    notes = [
        f"noise of {noise.cells:,} cells of {recorded}; seed {options.seed}",
        f"smallest effect {SMALLEST[platform]:.0%}, large difference {LARGE[platform]:.0%}, share of false discoveries"
        f" {FALSE_DISCOVERIES:.0%}",
    ]
    if options.picture:
        try:
            Path(options.picture).write_text(
                draw(f"Verdicts, {title}", calibration_panels(simulated)), encoding="utf-8"
            )
        except OSError as error:
            raise ReportError(f"--picture {options.picture}: cannot be written: {error.strerror}.") from error
    return Page((calibration_table(simulated, title, notes),), calibration_frame(simulated)), Exit.FINE


def _history(options: argparse.Namespace) -> tuple["Page", Exit]:
    from reports.history.histories import histories
    from reports.history.history_table import history_frame, history_tables
    from reports.render.page import Page

    paths = [find_run(name, options.runs) for name in options.run_names] or list_runs(options.runs)
    runs: list[RunFile] = []
    code = Exit.FINE
    for path in paths:
        try:
            runs.append(_read(path))
        except ReportError as error:
            # One bad file must not hide the others.
            _say(options, str(error))
            code = Exit.COULD_NOT_RUN
            continue
        for problem in runs[-1].problems[:1]:
            _say(options, f"DAMAGED: {problem}")
            code = Exit.COULD_NOT_RUN
    series = histories(runs, lambda cell: _is_selected(cell, options))
    if not series:
        raise RunNotFound(
            f"none of {len(paths):,} runs has a time of such a cell. Record runs with bench, or leave an option out."
        )
    return Page(tuple(history_tables(series, options.series)), history_frame(series)), code


def _list(options: argparse.Namespace) -> tuple["Page", Exit]:
    from reports.pages.run_table import run_table
    from reports.render.page import Page

    runs: dict[str, RunFile | ReportError] = {}
    code = Exit.FINE
    for path in list_runs(options.runs):
        try:
            run = runs[run_id(path)] = _read(path)
        except ReportError as error:
            # One bad file must not hide the others.
            runs[run_id(path)] = error
            _say(options, str(error))
            code = Exit.COULD_NOT_RUN
            continue
        if run.problems or run.completeness is Completeness.INCOMPLETE:
            judgement = judge(run)
            _say(options, f"{path}: {judgement.lines[0]}")
            code = Exit.COULD_NOT_RUN
    return Page.of([run_table(runs, str(runs_directory(options.runs)))]), code


def _read(path: Path) -> RunFile:
    run = load_run(path)
    if not run.records:
        first = f"{run.problems[0]}; the file" if run.problems else f"{path}:"
        raise RunUnreadable(f"{first} holds no record. The run died before its first cell ended; run it again.")
    return run


def _judged(run: RunFile, records: list[Record], options: argparse.Namespace) -> Judgement:
    """Judges the selected records of a run, and says what is missing or damaged."""
    judgement = judge(run, records, selects=lambda cell: _is_selected(cell, options))
    for line in judgement.lines:
        _say(options, f"{run.path}: {line}")
    for note in judgement.notes:
        print(f"kernel-bridge: note: {visible(f'{run.path}: {note}')}", file=sys.stderr)
    return judgement


def _lost(run: RunFile, records: list[Record], options: argparse.Namespace) -> list[str]:
    """Returns what is missing or damaged in a run, after saying it; its results do not count."""
    lines = judge(run, records, selects=lambda cell: _is_selected(cell, options)).lines
    lost = [line for line in lines if line.startswith(("DAMAGED", "INCOMPLETE"))]
    for line in lost:
        _say(options, f"{run.path}: {line}")
    return lost


def _say(options: argparse.Namespace, text: str) -> None:
    print(visible(f"{options.prog}: {text}"), file=sys.stderr)


def _is_selected(cell: Cell, options: argparse.Namespace) -> bool:
    names = {"operator": options.operator, "backend": options.backend, "size": options.size}
    names["dtype"] = [short_dtype(name) for name in options.dtype]
    return all(not values or _value(cell, name) in values for name, values in names.items())


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
        known = {_value(record.cell, name) for record in records}
        unknown = [value for value in values if value not in known]
        if unknown:
            listed = ", ".join(map(str, sorted(known)))
            raise RunNotFound(f"{name} {unknown[0]!r} is not in this run (it has: {listed}).")
        if values:
            kept = {*values} | (references if name == "backend" else set())
            selected = [record for record in selected if _value(record.cell, name) in kept]
    if not selected:
        raise RunNotFound("no cell of this run fits all of the options. Leave one out.")
    return selected


def _value(cell: Cell, name: str) -> Any:
    value = getattr(cell, name)
    return short_dtype(value) if name == "dtype" else value
