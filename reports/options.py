"""Defines the options and exit codes that all commands share."""

import argparse
import math
import os
import sys
from collections.abc import Callable, Iterable
from enum import IntEnum
from pathlib import Path
from typing import NoReturn

from reports.records.store import RUNS_VARIABLE
from reports.render.layout import LEAST_WIDTH
from reports.render.visible import visible


class Exit(IntEnum):
    """The exit codes of all commands."""

    FINE = 0
    WRONG = 1
    COULD_NOT_RUN = 3


EXIT_HELP = """exit codes:
  0  fine
  1  a cell is wrong or, in a comparison, slower; or a broken kernel was not caught
  3  nothing was checked, or not everything: a run is incomplete or damaged, a cell could not be judged; or the command
     could not run: bad arguments, no such run, interrupted
"""

COMMAND_VARIABLE = "KERNEL_BRIDGE_COMMAND"
"""The environment variable with the words that started a command, such as ``nox -s bench --``."""

FORMATS = ("terminal", "markdown", "json", "csv")


class Parser(argparse.ArgumentParser):
    """An ArgumentParser whose errors take one line and exit with code 3."""

    def error(self, message: str) -> NoReturn:
        """Prints the message in one line and ends with the exit code of a command that could not run."""
        self.exit(Exit.COULD_NOT_RUN, f"{visible(f'{self.prog}: {message}. See {self.prog} --help.')}\n")


def again(command: str) -> str:
    """Returns how to start a command in the way this process was started: ``python -m suites show``, say."""
    words = os.environ.get(COMMAND_VARIABLE, "").split()
    if "-s" in words[:-1]:
        words[words.index("-s") + 1] = command
        return " ".join(words)
    started = Path(sys.argv[0])
    if started.name == "kernel-bridge":
        return f"kernel-bridge {command}"
    return f"python -m {'reports' if started.parent.name == 'reports' else 'suites'} {command}"


def add_selection(parser: argparse.ArgumentParser) -> None:
    """Adds the options that choose cells. Each may be repeated."""
    group = parser.add_argument_group("cells")
    group.add_argument("--operator", action="append", default=[], metavar="NAME", help="only this operator")
    group.add_argument("--backend", action="append", default=[], metavar="NAME", help="only this backend")
    group.add_argument("--dtype", action="append", default=[], metavar="NAME", help="only this dtype: float32, f32")
    group.add_argument("--size", action="append", default=[], type=whole(1), metavar="N", help="only this size")


def add_arrangement(parser: argparse.ArgumentParser, sorts: Iterable[str], kinds: Iterable[str]) -> None:
    """Adds the options that sort cells, and that show only some of them. The latter may be repeated."""
    group = parser.add_argument_group("arrangement")
    group.add_argument("--sort", choices=["name", *sorts], help="list cells by this, the greatest first")
    text = "show only such cells; may be repeated. The exit code counts all cells"
    group.add_argument("--only", action="append", default=[], choices=[*kinds], help=text)


def add_output(parser: argparse.ArgumentParser) -> None:
    """Adds the options for the output and for the folder of the runs."""
    group = parser.add_argument_group("output")
    group.add_argument("--format", choices=FORMATS, default="terminal", help="json and csv have the numbers unrounded")
    group.add_argument("--summary", metavar="FILE", help="append the tables to this file, as Markdown")
    text = "characters per line (default: the terminal's; markdown: 120)"
    group.add_argument("--width", type=whole(LEAST_WIDTH), help=text)
    group.add_argument("--ascii", action="store_true", help="print tables in plain ASCII: no lines of boxes, us for µs")
    group.add_argument("--runs", metavar="DIR", help=f"folder of the runs (default: ${RUNS_VARIABLE}, else runs/)")


MOST = 2**63 - 1
"""The largest whole number that an option takes: a record can hold it."""

MOST_SECONDS = 1_000_000
"""The longest time that an option takes: the functions of the system that wait take no more than 24 days."""


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


def percent(text: str) -> float:
    """Converts the value of an option that takes a number of percent to a share."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 < value < math.inf:
        raise argparse.ArgumentTypeError(f"got {text}, expected a number of percent above 0")
    return value / 100


def seconds(text: str) -> float:
    """Converts the value of an option that takes a time in seconds."""
    return _time(text, "seconds", MOST_SECONDS)


def minutes(text: str) -> float:
    """Converts the value of an option that takes a time in minutes."""
    return _time(text, "minutes", MOST_SECONDS // 60)


def _time(text: str, unit: str, most: int) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 < value < math.inf:
        raise argparse.ArgumentTypeError(f"got {text}, expected {unit} above 0")
    if value > most:
        raise argparse.ArgumentTypeError(f"got {text}, expected at most {most} {unit}")
    return value
