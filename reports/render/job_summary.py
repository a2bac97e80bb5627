"""Renders tables as a Markdown page for a job of continuous integration, which is never too large."""

import html
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from reports.errors import ReportError
from reports.render.layout import Style, Table, Text, shown
from reports.render.markdown import escape, render_shown

MOST_BYTES = 60_000
"""Bytes of a whole page in UTF-8, of all commands that append to it. GitHub allows 1 MiB for a step."""

_ROWS, _NOTES, _CHARACTERS = 100, 20, 400
"""Rows and notes of one table, and characters of one text, that a page shows."""

_FAILURE = re.compile(r"(?!PASSED|SKIPPED|SAME|FASTER)[A-Z][A-Z_]{2,}\b")
"""Notes that say why cells failed begin with the status or the verdict."""


def append_job_summary(tables: Sequence[Table], path: str | Path, origin: str = "") -> None:
    """Appends tables to the page of a job, so that the whole page stays below `MOST_BYTES`.

    Args:
        tables: The tables.
        path: The file; it is made if it is missing.
        origin: Names where everything is, such as the command that shows it.

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
        most: The bytes that may be used.
        origin: Names where everything is.
    """
    known = [_clipped(shown(table)) for table in tables]
    others = [table for table in known if table.role != "alarm"]
    parts = [_rendered(table) for table in known if table.role == "alarm"]
    parts += [f"- **{escape(table.title)}**: {escape(note.removeprefix('cells: '))}\n\n" for table in others
              for note in table.notes if note.startswith("cells: ")]  # fmt: skip
    parts += [_rendered(table) for table in map(_bad, others) if table.rows]
    parts += [_rendered(table) for table in others if table.role == "summary"]
    parts += [f"<details><summary>{html.escape(table.title)}</summary>\n\n{_rendered(table)}</details>\n\n"
              for table in others if table.role == "detail"]  # fmt: skip
    said = f"tables are left out to keep this page short. {escape(origin)} shows all.\n\n"
    room = most - len(said.encode()) - 10
    fitting = []
    for part in parts:
        if len(part.encode()) <= room:
            fitting.append(part)
            room -= len(part.encode())
    left = len(parts) - len(fitting)
    return "".join(fitting) + (f"{left} {said}" if left and room >= 0 else "")


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
