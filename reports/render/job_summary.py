"""Renders tables as a Markdown page of limited size, for a job of continuous integration."""

import html
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from reports.errors import ReportError
from reports.render.layout import Style, Table, Text, shown
from reports.render.markdown import escape, render_shown

MOST_BYTES = 60_000
"""Most bytes of a page in UTF-8, of all commands that append to it. GitHub allows 1 MiB for a step."""

_ROWS, _NOTES, _CHARACTERS = 100, 20, 400
"""Most rows and notes of one table, and most characters of one text."""

_FAILURE = re.compile(r"(?!PASSED|SKIPPED|SAME|FASTER)[A-Z][A-Z_]{2,}\b")
"""Matches notes on failures: they begin with the status or the verdict."""


def append_job_summary(tables: Sequence[Table], path: str | Path, origin: str = "") -> None:
    """Appends tables to the page of a job, which stays below `MOST_BYTES`.

    Args:
        tables: The tables.
        path: The file; it is made if it is missing.
        origin: The command that shows all tables.

    Raises:
        ReportError: The file cannot be written.
    """
    file = Path(path)
    try:
        room = MOST_BYTES - (file.stat().st_size if file.exists() else 0)
        with file.open("a", encoding="utf-8", newline="\n") as page:
            page.write(job_summary(tables, room, origin))
    except OSError as error:
        raise ReportError(f"--summary {path}: cannot be written: {error.strerror}.") from error


def job_summary(tables: Sequence[Table], most: int = MOST_BYTES, origin: str = "") -> str:
    """Returns tables as Markdown of at most `most` bytes in UTF-8.

    First come tables of the role `alarm`; then the rows of other tables that hold something bad, with the reasons; then
    tables of the role `summary`; then all others, folded. A table that does not fit is left out, and the page says so.

    Args:
        tables: The tables.
        most: The most bytes.
        origin: The command that shows all tables.
    """
    clipped = [_clipped(shown(table)) for table in tables]
    others = [table for table in clipped if table.role != "alarm"]
    parts = [_rendered(table) for table in clipped if table.role == "alarm"]
    parts += [f"- **{escape(table.title)}**: {escape(note.removeprefix('cells: '))}\n\n" for table in others
              for note in table.notes if note.startswith("cells: ")]  # fmt: skip
    parts += [_rendered(table) for table in map(_bad, others) if table.rows]
    parts += [_rendered(table) for table in others if table.role == "summary"]
    parts += [f"<details><summary>{html.escape(table.title)}</summary>\n\n{_rendered(table)}</details>\n\n"
              for table in others if table.role == "detail"]  # fmt: skip
    text = f"tables are left out to keep this page short. {escape(origin)} shows all.\n\n"
    room = most - len(text.encode()) - 10
    fitting = []
    for part in parts:
        if len(part.encode()) <= room:
            fitting.append(part)
            room -= len(part.encode())
    left = len(parts) - len(fitting)
    return "".join(fitting) + (f"{left} {text}" if left and room >= 0 else "")


def _rendered(table: Table) -> str:
    count = len(table.rows)
    title = f"{table.title} (first {_ROWS} of {count:,} rows)" if count > _ROWS else table.title
    return render_shown(replace(table, title=title, rows=table.rows[:_ROWS], notes=table.notes[:_NOTES])) + "\n"


def _bad(table: Table) -> Table:
    """Returns the rows of a table that hold something bad, with the reasons."""
    rows = tuple(row for row in table.rows if any(text.style is Style.BAD for text in row))
    title = f"{len(rows):,} rows need a look: {table.title}"
    return replace(table, title=title, rows=rows, notes=tuple(note for note in table.notes if _FAILURE.match(note)))


def _clipped(table: Table) -> Table:
    rows = tuple(tuple(Text(_clip(text.text), text.style) for text in row) for row in table.rows)
    return replace(table, title=_clip(table.title), rows=rows, notes=tuple(map(_clip, table.notes)))


def _clip(text: str) -> str:
    return text if len(text) <= _CHARACTERS else text[: _CHARACTERS - 1] + "…"
