"""Prints what a command found, in the format that its user asked for."""

import argparse
import json
import os
import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from reports.errors import ReportError
from reports.render import markdown, terminal
from reports.render.layout import Table

_JSON_TEXT = ("params", "shapes", "dtypes", "affinity", "threads", "versions", "flags")
"""Columns of :func:`reports.pages.frame.to_frame` that hold JSON."""


@dataclass(frozen=True)
class Page:
    """Tables for people, and the same facts as a frame for programs."""

    tables: tuple[Table, ...]
    frame: pd.DataFrame

    @classmethod
    def of(cls, tables: Sequence[Table]) -> "Page":
        """A page whose frame has the texts of its tables."""
        frames = [_texts(table) for table in tables]
        return cls(tuple(tables), pd.concat(frames, ignore_index=True) if frames else pd.DataFrame())


def show(page: Page, options: argparse.Namespace) -> None:
    """Prints a page as the options of :func:`reports.options.add_output` ask for.

    Raises:
        ReportError: The file of ``--summary`` cannot be written.
    """
    if sys.stdout is not None:  # the user may have closed it
        _print(_rendered(page, options))
    summarise(page, options.summary)


def check_summary(path: str | None) -> None:
    """Raises ReportError where a file for ``--summary`` cannot be written, before a command has done its work."""
    if path and not (os.access(path, os.W_OK) if Path(path).exists() else Path(path).resolve().parent.is_dir()):
        raise ReportError(f"--summary {path}: cannot be written there.")


def summarise(page: Page, path: str | None) -> None:
    """Appends a page to a file, as Markdown; does nothing without a file.

    Raises:
        ReportError: The file cannot be written.
    """
    if not path:
        return
    try:
        with Path(path).open("a", encoding="utf-8") as file:
            file.write(markdown.render(page.tables))
    except OSError as error:
        raise ReportError(f"--summary {path}: cannot be written: {error.strerror}.") from error


def _rendered(page: Page, options: argparse.Namespace) -> str:
    if options.format == "markdown":
        return markdown.render(page.tables, options.width or markdown.WIDTH)
    if options.format == "csv":
        return page.frame.to_csv(index=False)
    if options.format == "json":
        return json.dumps([_plain(row) for row in page.frame.to_dict("records")], indent=1) + "\n"
    width = options.width or shutil.get_terminal_size((100, 24)).columns
    return terminal.render(page.tables, width, color=sys.stdout.isatty() and not os.environ.get("NO_COLOR"))


def _plain(row: dict[Any, Any]) -> dict[str, Any]:
    """A row as JSON has it: null for what is not there, lists and mappings for those that the frame has as text."""
    found: dict[str, Any] = {}
    for name, value in row.items():
        missing = value is None or value != value
        is_json = name in _JSON_TEXT and str(value)[:1] in "[{"
        found[str(name)] = None if missing else json.loads(value) if is_json else value
    return found


def _texts(table: Table) -> pd.DataFrame:
    names = [" ".join(filter(None, (column.group, column.header))) for column in table.columns]
    rows = [[table.title, row.group, *(text.text for text in row.cells)] for row in table.rows]
    frame = pd.DataFrame(rows, columns=["table", table.row_group or "group", *names])
    return frame if table.row_group else frame.drop(columns="group")


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
