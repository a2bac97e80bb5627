"""Defines the options of all commands, each once, and their exit codes."""

import argparse
import math
from collections.abc import Callable
from enum import IntEnum
from typing import Any, NoReturn

from reports.errors import RecordError
from reports.pages.arrangement import KINDS, SORTS
from reports.records.header import part_of
from reports.records.store import RUNS_VARIABLE
from reports.render.visible import visible


class Exit(IntEnum):
    """The exit codes of all commands."""

    FINE = 0
    WRONG = 1
    COULD_NOT_RUN = 3


EXIT_HELP = """exit codes:
  0  fine
  1  a cell is wrong or, in a comparison, slower
  3  nothing was checked, or not everything: a run is incomplete or damaged, a cell could not be judged; or the command
     could not run: bad arguments, no such run, interrupted
"""


class Parser(argparse.ArgumentParser):
    """An ArgumentParser whose errors take one line and exit with code 3."""

    def error(self, message: str) -> NoReturn:
        """Prints the message in one line and ends with the exit code of a command that could not run."""
        self.exit(Exit.COULD_NOT_RUN, f"{visible(f'{self.prog}: {message}. See {self.prog} --help.')}\n")


MOST = 2**63 - 1
"""The largest whole number of an option: a record can hold it."""

MOST_SECONDS = 1_000_000
"""The longest time of an option: functions of the system can wait for at most 24 days."""


def whole(least: int, most: int = MOST) -> Callable[[str], int]:
    """Returns the type of an option that takes a whole number from `least` to `most`."""

    def convert(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            value = least - 1
        if value < least:
            raise argparse.ArgumentTypeError(f"got {text}, expected a whole number of at least {least}")
        if value > most:
            raise argparse.ArgumentTypeError(f"got {text}, expected a whole number of at most {most}")
        return value

    return convert


def above_zero(most: float) -> Callable[[str], float]:
    """Returns the type of an option that takes a number above zero, and at most `most`."""

    def convert(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if not 0 < value <= most:
            raise argparse.ArgumentTypeError(f"got {text}, expected a number above 0 and at most {most:g}")
        return value

    return convert


FORMATS = ("terminal", "markdown", "json", "csv")

RUN_HELP = "a path, a run id, the beginning of one, 'latest' or 'previous'"


def part(text: str) -> tuple[int, int]:
    """Converts the value of ``--part``: the number of a part, and the number of parts."""
    try:
        return part_of(text)
    except RecordError as error:
        raise argparse.ArgumentTypeError(f"got {text}, expected a part such as 3/8") from error


def _names(what: str, **more: Any) -> dict[str, Any]:
    return {"action": "append", "default": [], "metavar": "NAME", "help": f"only this {what}; may be repeated"} | more


OPTIONS: dict[str, dict[str, Any]] = {
    "operator": _names("operator"),
    "backend": _names("backend"),
    "dtype": _names("dtype, such as float32 or f32"),
    "size": _names("size", type=whole(1), metavar="N"),
    "device": {"choices": ("cpu", "cuda"), "default": "cpu", "help": "where the cells run (default: cpu)"},
    "profile": {
        "choices": ("quick", "full"),
        "help": "quick: few cells of each kernel; full: all cells (default: quick; validate of your own FILE: full)",
    },
    "part": {"type": part, "metavar": "K/N", "help": "only the K-th of N even parts of the cells; merge joins them"},
    "executor": {
        "metavar": "MODULE:FUNCTION",
        "help": "run parts on the executor that this function returns: anything with submit",
    },
    "missing": {"action": "store_true", "help": "print the commands that record the missing parts, and join nothing"},
    "resume": {"metavar": "RUN", "help": f"continue this recorded run: {RUN_HELP}"},
    "processes": {
        "type": whole(1, 256),
        "metavar": "N",
        "help": "fresh processes that time each cell (default: 4; compare: as many as a verdict needs)",
    },
    "minutes": {
        "type": above_zero(MOST_SECONDS / 60), "metavar": "M",
        "help": "time for two revisions, once four processes of each have run (default: of the policy, else 10)",
    },
    "timeout": {
        "type": above_zero(MOST_SECONDS), "default": 300.0, "metavar": "S",
        "help": "seconds for a cell at most (default: 300)",
    },
    "jobs": {"type": whole(0), "metavar": "N", "help": "worker processes (default: one for 40 cells; 0: none)"},
    "seed": {"type": whole(0), "metavar": "N", "help": "repeat the random choices of a run (default: new ones)"},
    "peers": {"action": "store_true", "help": "time functions of other libraries beside the kernels"},
    "gate": {"action": "store_true", "help": "decide by [tool.kernel-bridge.gate] of pyproject.toml: is it slower?"},
    "sort": {"choices": ("name", *SORTS), "help": "list cells by this, the greatest first"},
    "only": {"action": "append", "default": [], "choices": (*KINDS,), "help": "show only such cells; may be repeated"},
    "details": {"action": "store_true", "help": "list cells with all recorded facts of a call"},
    "format": {"choices": FORMATS, "default": "terminal", "help": "json and csv have the numbers unrounded"},
    "summary": {"metavar": "FILE", "help": "append the tables to this file, as Markdown"},
    "output": {"default": "report.html", "metavar": "FILE", "help": "the file to write (default: report.html)"},
    "runs": {"metavar": "DIR", "help": f"folder of the runs (default: ${RUNS_VARIABLE}, else runs/)"},
    "verbose": {"action": "store_true", "help": "with source and traceback of failures"},
}  # fmt: skip
"""Every option, by its name. It has the same meaning and the same default in every command."""

_FLAGS = {"verbose": ("-v", "--verbose"), "device": ("--device", "--platform"), "jobs": ("-n", "--jobs")}
CELLS = ("operator", "backend", "dtype", "size")


def add_command(
    commands: Any, name: str, text: str, example: str, *options: str, more: str = "", **defaults: Any
) -> argparse.ArgumentParser:
    """Adds a command to a parser's subparsers, the result of ``add_subparsers``, and returns its parser.

    Args:
        commands: The subparsers.
        name: The name of the command.
        text: What it does.
        example: The words after ``kernel-bridge``.
        *options: Names in :data:`OPTIONS`.
        more: Further help, which ends with an empty line.
        **defaults: Values of the parsed options.
    """
    epilog = f"{more}{EXIT_HELP}\nexample:\n  kernel-bridge {example}"
    parser: argparse.ArgumentParser = commands.add_parser(
        name, help=text, description=text, epilog=epilog, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.set_defaults(**{"name": name, "prog": parser.prog, "takes_pytest": False, "reads_runs": False} | defaults)
    add_options(parser, *options)
    return parser


def add_options(parser: argparse.ArgumentParser, *names: str) -> None:
    """Adds options of :data:`OPTIONS`. A command without ``format`` or ``summary`` prints to the terminal."""
    parser.set_defaults(summary=None, format="terminal", runs=None)
    for name in names:
        parser.add_argument(*_FLAGS.get(name, (f"--{name}",)), **OPTIONS[name])
