"""Prints the page of a command in the format of its options."""

import argparse
import os
import shutil
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from reports.errors import ReportError
from reports.render import markdown, terminal
from reports.render.frame_files import frame_csv, frame_json
from reports.render.job_summary import append_job_summary
from reports.render.layout import LEAST_WIDTH, Table
from reports.render.visible import visible


@dataclass(frozen=True)
class Page:
    """Tables for people, and a frame with the same facts for programs.

    Attributes:
        tables: The tables.
        facts: The facts with all digits as a frame, or a function that makes it.
        json_columns: Columns of the frame that hold JSON text.
        origin: The command that shows everything, for a page that leaves something out.
    """

    tables: tuple[Table, ...]
    facts: pd.DataFrame | Callable[[], pd.DataFrame]
    json_columns: tuple[str, ...] = ()
    origin: str = ""

    @property
    def frame(self) -> pd.DataFrame:
        """The facts as a frame."""
        return self.facts() if callable(self.facts) else self.facts

    @classmethod
    def of(cls, tables: Sequence[Table]) -> "Page":
        """Returns a page whose frame holds the texts of its tables."""
        frames = [_texts(table) for table in tables]
        return cls(tuple(tables), pd.concat(frames, ignore_index=True) if frames else pd.DataFrame())


def show(page: Page, options: argparse.Namespace) -> None:
    """Prints a page by the options ``--format`` and ``--summary``.

    Raises:
        ReportError: The file of ``--summary`` cannot be written.
    """
    if sys.stdout is not None:  # the user may have closed it
        _print(_rendered(page, options))
    if options.summary:
        append_job_summary(page.tables, options.summary, page.origin)


def check_summary(path: str | None) -> None:
    """Raises ReportError if the file of ``--summary`` cannot be written. A command checks this before its work."""
    if path and not (os.access(path, os.W_OK) if Path(path).exists() else Path(path).resolve().parent.is_dir()):
        raise ReportError(f"--summary {path}: cannot be written there.")


def _rendered(page: Page, options: argparse.Namespace) -> str:
    if options.format == "markdown":
        return markdown.render(page.tables)
    if options.format == "csv":
        return frame_csv(page.frame)
    if options.format == "json":
        return frame_json(page.frame, page.json_columns)
    width = max(LEAST_WIDTH, shutil.get_terminal_size((100, 24)).columns)
    color = sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    return terminal.render(page.tables, width, color)


def _texts(table: Table) -> pd.DataFrame:
    # The name of a file may not be valid Unicode.
    rows = [[visible(each) for each in (table.title, *(text.text for text in row))] for row in table.rows]
    return pd.DataFrame(rows, columns=["table", *(column.header for column in table.columns)])


def _print(text: str) -> None:
    # If a stream cannot show some characters, they are replaced.
    reconfigure = getattr(sys.stdout, "reconfigure", None)
    if reconfigure is not None:
        reconfigure(errors="replace")
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except OSError as error:
        # The rest of the stream's buffer would raise again when the stream is closed.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if not isinstance(error, BrokenPipeError):  # the reader, such as `head` or a pager, has closed the pipe
            raise ReportError(
                f"the output cannot be written: {error.strerror}. Free space, or write it elsewhere."
            ) from error
