"""Implements the command line: ``kernel-bridge COMMAND``, or ``python -m suites COMMAND``.

Each command imports its modules when it runs, so that its first line is on the screen at once.
"""

from __future__ import annotations

import argparse
import os
import shlex
import sys
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from reports.cli import add_commands
from reports.cli import run as run_report
from reports.errors import ReportError
from reports.options import CELLS, EXIT_HELP, RUN_HELP, Exit, Parser, add_command
from reports.pages.phrases import cells_text
from reports.records.store import RUNS_VARIABLE
from reports.render.visible import visible
from suites.cells.selection import Selection, SelectionError, require_files
from suites.processes.interruption import INTERRUPTION

DESCRIPTION = """Validate kernels against references, time them, and show what was recorded.

FILE is a Python file, or the name of a module, that holds operators (suites.Operator) under public names.
Without a FILE the built-in operators are used.
"""

_USAGE_ERROR, _NO_TESTS = 4, 5  # exit codes of pytest


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line; returns the exit code."""
    words = sys.argv[1:] if arguments is None else list(arguments)
    # Everything after "--" is for pytest: argparse would take the value of an unknown option for a file.
    end = words.index("--") if "--" in words else len(words)
    options = parsed(words[:end])
    options.pytest = words[end + 1 :]
    options.typed = words[:end]
    if options.pytest and not options.takes_pytest:
        print(f"{options.prog}: takes no arguments after --.", file=sys.stderr)
        return int(Exit.COULD_NOT_RUN)
    if options.runs:
        os.environ[RUNS_VARIABLE] = options.runs
    try:
        if options.reads_runs:
            return run_report(options)
        require_files(getattr(options, "operators", None) or ())
        if options.summary:
            from reports.render.page import check_summary

            check_summary(options.summary)
        return int(options.command(options))
    except (SelectionError, ReportError) as error:
        _say(f"{options.prog}: {error}")
    except KeyboardInterrupt:
        print(f"{options.prog}: interrupted.", file=sys.stderr)
    except Exception as error:
        if INTERRUPTION.happened:  # a library made another exception of it
            print(f"{options.prog}: interrupted.", file=sys.stderr)
            return int(Exit.COULD_NOT_RUN)
        # Python would exit with 1, which means that a kernel is wrong or slower.
        what = f"{type(error).__name__}: {error}".splitlines()[0]
        _say(traceback.format_exc(), f"{options.prog}: stopped by a fault of its own, so nothing is decided: {what}")
    return int(Exit.COULD_NOT_RUN)


def parsed(words: Sequence[str]) -> argparse.Namespace:
    """Parses a command line in which files may stand before, between and after the options of a command."""
    main_parser, commands = _parsers()
    command = commands.get(words[0]) if words else None
    return command.parse_intermixed_args(words[1:]) if command else main_parser.parse_args(words)


def selection_of(options: argparse.Namespace) -> Selection:
    """Returns the selection of a command. The default profile is quick, but ``validate FILE`` uses full."""
    selection = Selection.of(options)
    is_full = selection.sources and options.name == "validate"
    return replace(selection, profile=options.profile or ("full" if is_full else "quick"))


def _bench(options: argparse.Namespace) -> Exit:
    selection = selection_of(options)
    _announce(f"timing the {selection.profile} profile on {options.device}; each kernel is checked first")
    if options.executor:
        from suites.commands.executor import run_on_executor

        outcome = run_on_executor(options, selection)
    else:
        from suites.bench.command import bench

        outcome = bench(selection, resume=options.resume, timeout_s=options.timeout, processes=options.processes)
    if outcome.path is None:
        ended = "interrupted before a cell ended" if outcome.interrupted else "no cell ended"
        raise SelectionError(outcome.refusal or f"{ended}, so nothing was recorded.")
    code = _show_run(options, outcome.path, says=not outcome.interrupted, ends=False)
    from reports.records.run_file import load_run
    from suites.bench.verdicts import show_verdicts

    show_verdicts(load_run(outcome.path), _show_command(options, outcome.path))
    _say_how_to_go_on(options, outcome)
    return Exit.COULD_NOT_RUN if outcome.refusal and code is Exit.FINE else code


def _validate(options: argparse.Namespace) -> Exit:
    selection = selection_of(options)
    _announce(f"checking the {selection.profile} profile on {options.device}")
    to_page = options.format != "terminal"
    if options.executor:
        from suites.commands.executor import run_on_executor

        outcome = run_on_executor(options, selection)
    else:
        from suites.validate.command import validate

        outcome = validate(
            selection,
            jobs=options.jobs,
            timeout_s=options.timeout,
            resume=options.resume,
            verbose=options.verbose,
            quietly=not (options.verbose or options.pytest),
            seed=options.seed,
            more=options.pytest,
        )
    if outcome.code == _USAGE_ERROR:
        return Exit.COULD_NOT_RUN  # pytest has said why
    if outcome.path is None or (outcome.refusal and not outcome.left):
        ended = "interrupted" if outcome.interrupted else f"pytest ended with exit code {outcome.code}"
        raise SelectionError(outcome.refusal or f"{ended} before the first check ran, so nothing was recorded.")
    nothing_left = options.resume is not None and outcome.code == _NO_TESTS
    # A resumed run has cells of earlier sessions, which count as well.
    if to_page or nothing_left or outcome.interrupted:
        code = _show_run(options, outcome.path, says=not outcome.interrupted, tables=to_page or nothing_left)
        if not to_page:
            _print_failures(outcome.path)
    else:
        from suites.validate.verdicts import show_verdicts

        code = show_verdicts(options, outcome, shows=_show_command(options, outcome.path), typed=_typed(options))
    _say_how_to_go_on(options, outcome)
    if code is Exit.FINE and outcome.code not in (0, _NO_TESTS):
        raise SelectionError(f"pytest ended with exit code {outcome.code}; what was recorded is in {outcome.path}.")
    return code


def _list(options: argparse.Namespace) -> Exit:
    from reports.render.page import Page, show
    from suites.commands.listing import listing
    from suites.processes.preflight import require_sound

    selection = selection_of(options)
    require_sound(selection)
    show(Page.of([listing(selection)]), options)
    return Exit.FINE


def _compare(options: argparse.Namespace) -> Exit:
    from suites.compare.command import compare

    return compare(options)


def _merge(options: argparse.Namespace) -> Exit:
    from suites.commands.merge import commands_of_missing, merge

    if options.missing:
        commands = commands_of_missing(options.run_names, options.runs)
        for command in commands:
            print(command)
        return Exit.COULD_NOT_RUN if commands else Exit.FINE
    path = merge(options.run_names, options.runs)
    code = _show_run(options, path, tables=False)
    _print_failures(path)
    return code


def _print_failures(path: Path) -> None:
    """Prints a line for each kernel of a run that failed."""
    from reports.records.run_file import load_run
    from suites.checks.judging.reasons import verdict_lines

    for line in verdict_lines(load_run(path))[1]:
        print(visible(line))


def _show_run(
    options: argparse.Namespace, path: Path, *, says: bool = True, tables: bool = True, ends: bool = True
) -> Exit:
    """Shows the tables of the run that a session recorded, and returns its exit code.

    Args:
        options: The options of the command.
        path: The run file.
        says: Whether to print the doubts of the judgement. After an interruption the command prints how to go on.
        tables: Whether to show the tables.
        ends: Whether to print the last line: how many cells there are, and where.
    """
    from reports.judgement import judge
    from reports.pages.run_page import page_of
    from reports.records.record import last_by_cell
    from reports.records.run_file import load_run
    from reports.render.page import show

    run = load_run(path)
    judgement = judge(run)
    if tables and run.records:
        show(page_of(run.records, doubts=judgement.lines), options)
    _say(*(f"{options.prog}: {line}" for line in judgement.lines if says))
    count = len(last_by_cell(run.records))
    if not ends:
        return judgement.exit
    print(f"{count} cells, recorded in {path}; show them again: {_show_command(options, path)}", file=sys.stderr)
    return judgement.exit


def _show_command(options: argparse.Namespace, path: Path) -> str:
    """Returns the command that shows a run, from the folder where the session was started."""
    from reports.records.store import run_id

    return shlex.join(["kernel-bridge", "show", run_id(path), *(["--runs", options.runs] if options.runs else [])])


def _typed(options: argparse.Namespace) -> list[str]:
    """Returns the words after the name of the command, without ``--resume RUN``."""
    typed = [word for word in options.typed[1:] if word]
    if "--resume" in typed:
        index = typed.index("--resume")
        del typed[index : index + 2]
    return typed


def _say_how_to_go_on(options: argparse.Namespace, outcome: Any) -> None:
    """Prints how to continue a session that ended early."""
    if not (outcome.refusal or outcome.interrupted):
        return
    typed = [*_typed(options), "--resume", str(outcome.path)]
    typed += ["--", *options.pytest] if options.pytest else []
    why = "interrupted" if outcome.interrupted else outcome.refusal.rstrip(".")
    verb = "is" if outcome.left == 1 else "are"
    left = f"{cells_text(outcome.left)} {verb} left" if outcome.left else "no cell was added"
    print(f"{options.prog}: {why}; {left}. Continue with:", file=sys.stderr)
    print(f"    kernel-bridge {options.name} {shlex.join(typed)}", file=sys.stderr)


def _say(*texts: str) -> None:
    """Prints lines on standard error; a name in them cannot control the terminal."""
    for text in texts:
        for line in text.splitlines():
            print(visible(line), file=sys.stderr)


def _announce(text: str) -> None:
    print(f"kernel-bridge: {text}", file=sys.stderr, flush=True)


class _ShowVersion(argparse.Action):
    """Prints the version. The import of ``bridge`` takes time, so it waits until the option is used."""

    def __call__(self, parser: argparse.ArgumentParser, *arguments: object) -> None:
        from bridge import __version__

        print(f"kernel-bridge {__version__}")
        parser.exit()


def parser() -> Parser:
    """Returns the parser of all commands."""
    return _parsers()[0]


def _parsers() -> tuple[Parser, Mapping[str, argparse.ArgumentParser]]:
    """Returns the parser of all commands, and the parser of each command by its name."""
    raw = argparse.RawDescriptionHelpFormatter
    main_parser = Parser(_program(), description=DESCRIPTION, epilog=EXIT_HELP, formatter_class=raw)
    main_parser.add_argument("--version", action=_ShowVersion, nargs=0, help="show the version and exit")
    commands = main_parser.add_subparsers(required=True, metavar="COMMAND")

    cells = (*CELLS, "device")
    validate = add_command(
        commands, "validate", "run every check of each kernel, and print the verdicts",
        "validate my_ops.py --operator cube", *cells, "profile", "part", "executor", "resume", "jobs", "timeout",
        "seed", "format", "summary", "runs", "verbose", command=_validate, takes_pytest=True,
        more="arguments after -- go to pytest, for example: -- -k vmap\n\n",
    )  # fmt: skip
    bench = add_command(
        commands, "bench", "check and time kernels, and print the table", "bench my_ops.py --size 4096", *cells,
        "profile", "part", "executor", "resume", "processes", "peers", "timeout", "format", "summary", "runs",
        command=_bench,
    )  # fmt: skip
    listing = add_command(
        commands, "list", "list operators, their backends, and why cells are skipped", "list --backend warp",
        "operator", "backend", "device", "format", command=_list,
    )  # fmt: skip
    for each in (validate, bench, listing):
        each.add_argument("operators", nargs="*", metavar="FILE", help="Python files or modules with operators")
    listing.set_defaults(profile="quick")
    compare = add_command(
        commands, "compare", "compare two recorded runs, or time two git revisions", "compare HEAD~1 --gate", "gate",
        *cells, "profile", "processes", "minutes", "timeout", "format", "summary", "runs", command=_compare,
    )  # fmt: skip
    compare.usage = f"{compare.prog} BASE [HEAD] [FILE ...] [options]"
    compare.add_argument(
        "names", nargs="*", metavar="NAME", help=f"BASE, then HEAD: two runs ({RUN_HELP}), or two git revisions, of "
        "which the second is HEAD by default; then Python files or modules with operators. With --gate, BASE is by "
        "default that of the policy",
    )  # fmt: skip
    merging = add_command(
        commands, "merge", "join the recorded parts of a run into one run", "merge parts/*.jsonl", "missing", "runs",
        command=_merge,
    )  # fmt: skip
    merging.add_argument("run_names", nargs="+", metavar="RUN", help=f"the parts: {RUN_HELP}")
    add_commands(commands)
    return main_parser, commands.choices


def _program() -> str:
    started = os.path.basename(sys.argv[0])
    return "kernel-bridge" if started == "kernel-bridge" else "python -m suites"
