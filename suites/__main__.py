"""The command line: ``python -m suites bench | validate | mutants | special | list``.

Exit codes: 0 fine; 1 a cell is wrong or failed, or a mutant survived; 3 the session could not run.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from reports.layout import Table
    from suites.run import Selection

COULD_NOT_RUN = 3


def main(arguments: list[str] | None = None) -> int:
    """Runs the command line; returns the exit code."""
    given = sys.argv[1:] if arguments is None else list(arguments)
    # After "--" all is pytest's: argparse would take the value of an option that it does not know for an operator.
    end = given.index("--") if "--" in given else len(given)
    options, more = _parser().parse_known_args(given[:end])
    more += given[end + 1 :]
    command: Callable[[argparse.Namespace, list[str]], int] = options.command
    return command(options, more)


def _bench(options: argparse.Namespace, more: list[str]) -> int:
    command = [str(Path(__file__).parent / "test_speed.py"), "-q", "--no-header", "-p", "no:cacheprovider"]
    command += ["-p", "suites.plugin", "--profile", options.profile, "--device", options.device]
    command += [part for name in options.operator for part in ("--operator", name)]
    command += [part for name in options.backend for part in ("--backend", name)]
    command += ["--resume", options.resume] if options.resume else []
    return _exit_code(pytest.main(command + more))


def _validate(options: argparse.Namespace, more: list[str]) -> int:
    from suites.run import run

    more = [*(["--summary", options.summary] if options.summary else []), *more]
    return _exit_code(run(_selection(options, options.operators, more)).code)


def _mutants(options: argparse.Namespace, more: list[str]) -> int:
    from suites.mutants.matrix import matrix
    from suites.run import run

    session = run(_selection(options, ["suites.mutants"], more), quietly=True)
    if session.path is None or session.code not in (0, 1):
        print(f"python -m suites mutants: pytest ended with exit code {session.code}", file=sys.stderr)
        return COULD_NOT_RUN
    tables, survivors = matrix(session.path, options.device)
    _show(tables, options.format)
    for name in survivors:
        print(f"survived: {name}", file=sys.stderr)
    return 1 if survivors else 0


def _list(options: argparse.Namespace, more: list[str]) -> int:
    from suites.listing import listing

    return _table(options, more, lambda: listing(options.device))


def _special(options: argparse.Namespace, more: list[str]) -> int:
    from suites.special import special_table

    return _table(options, more, lambda: special_table(options.device, options.operator, options.backend))


def _table(options: argparse.Namespace, more: list[str], make: Callable[[], Table]) -> int:
    """Shows what is made of the operators that the options name."""
    from suites import catalogue

    if more:
        _parser().error(f"unrecognized arguments: {' '.join(more)}")
    try:
        catalogue.use(options.operators)
    except catalogue.CatalogueError as error:
        print(f"python -m suites: {error}", file=sys.stderr)
        return COULD_NOT_RUN
    _show([make()], options.format)
    return 0


def _show(tables: Sequence[Table], form: str) -> None:
    from reports import markdown, terminal

    if form == "markdown":
        print(markdown.render(tables, 10_000), end="")
        return
    width = max(100, shutil.get_terminal_size((120, 24)).columns)
    print(terminal.render(tables, width, sys.stdout.isatty() and not os.environ.get("NO_COLOR")), end="")


def _selection(options: argparse.Namespace, operators: list[str], more: list[str]) -> Selection:
    from suites.run import Selection

    return Selection(
        operators=operators,
        device=options.device,
        cells=options.cells,
        only_operators=options.operator,
        only_backends=options.backend,
        jobs=options.jobs,
        timeout_s=options.timeout,
        more=more,
    )


def _exit_code(code: int) -> int:
    # A cell that is wrong is a finding; anything else that keeps the session from running is not.
    return {pytest.ExitCode.OK: 0, pytest.ExitCode.TESTS_FAILED: 1}.get(pytest.ExitCode(code), COULD_NOT_RUN)


class _Parser(argparse.ArgumentParser):
    """An ArgumentParser whose errors exit with 3, as :mod:`reports` has it."""

    def error(self, message: str) -> None:  # type: ignore[override]
        self.exit(COULD_NOT_RUN, f"{self.prog}: {message}. See {self.prog} --help.\n")


def _parser() -> argparse.ArgumentParser:
    more = "Further options go to pytest; put those with a value after --, as in: -- -k vmap"
    parser = _Parser("python -m suites", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True, metavar="COMMAND", parser_class=_Parser)

    def add(name: str, run: object, text: str, epilog: str = more) -> argparse.ArgumentParser:
        command = commands.add_parser(name, help=text, description=text, epilog=epilog)
        command.set_defaults(command=run)
        command.add_argument("--device", choices=("cpu", "cuda"), default="cpu", help="where the cells run")
        return command

    def add_selection(command: argparse.ArgumentParser) -> None:
        command.add_argument("--operator", action="append", default=[], help="only this operator; may be repeated")
        command.add_argument("--backend", action="append", default=[], help="only this backend; may be repeated")

    def add_workers(command: argparse.ArgumentParser, cells: str) -> None:
        command.add_argument("--cells", choices=("quick", "full"), default=cells, help=f"default: {cells}")
        command.add_argument("--jobs", type=int, help="worker processes (default: a core each, at most 8; 0: none)")
        command.add_argument("--timeout", type=float, default=300.0, metavar="S", help="seconds for a cell at most")

    sources = {
        "nargs": "*",
        "metavar": "FILE",
        "help": "Python files or modules with operators (default: the built-in)",
    }
    bench = add("bench", _bench, "check and time every cell of a profile")
    bench.add_argument(
        "--profile", choices=("quick", "full"), default="quick", help="quick: under 3 minutes on 2 cores"
    )
    bench.add_argument("--resume", metavar="RUN", help="continue this recorded run: a path, a run id, or latest")
    validate = add("validate", _validate, "run every check of every operator, backend and dtype, and record them")
    validate.add_argument("operators", **sources)  # type: ignore[arg-type]
    add_workers(validate, "full")
    validate.add_argument("--summary", metavar="FILE", help="append the grid as Markdown to this file")
    mutants = add("mutants", _mutants, "run the checks on broken kernels; print which check catches which")
    add_workers(mutants, "full")
    special = add(
        "special", _special, "show where backends treat NaN, infinities, zeros and subnormals differently", ""
    )
    listing = add("list", _list, "list operators, their backends, and why cells are skipped", "")
    for command in (special, listing):
        command.add_argument("operators", **sources)  # type: ignore[arg-type]
    for command in (mutants, special, listing):
        command.add_argument("--format", choices=("terminal", "markdown"), default="terminal")
    for command in (bench, validate, mutants, special):
        add_selection(command)
    return parser


if __name__ == "__main__":
    sys.exit(main())
