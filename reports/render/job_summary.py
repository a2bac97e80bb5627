"""Renders tables as a Markdown page for a job of continuous integration, which is never too large.

What failed comes first, then the summary; all tables follow, folded. Such a page has a limit, and people read its first
screen: so a page says what was left out and where it is, instead of growing with the number of cells.
"""

import html
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from reports.errors import ReportError
from reports.render.layout import Row, Style, Table, Text, shown
from reports.render.markdown import escape, render_shown

MOST_BYTES = 60_000
"""Bytes of a whole page in UTF-8, of all commands that append to it. GitHub allows 1 MiB for a step."""

SHARE = 2 / 3
"""The part of the bytes that are left which one command takes: others may append to the same file."""

_FEWEST = 700
"""With less room than this, a page says nothing: half a sentence helps nobody."""

_FOOTER = 300
_LONGEST_TEXT = 200
_LONGEST_NOTE = 500

_COUNTS = re.compile(r"cells: (?=\d)")
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
            page.write(job_summary(tables, int(room * SHARE), origin))
    except OSError as error:
        raise ReportError(f"--summary {path}: cannot be written: {error.strerror}.") from error


def job_summary(tables: Sequence[Table], most: int = MOST_BYTES, origin: str = "") -> str:
    """Returns tables as Markdown of at most `most` bytes in UTF-8; nothing if there is no room for a sentence.

    First come tables of the role `alarm`, and the numbers of cells; then the rows of other tables that hold something
    bad, with the reasons; then tables of the role `summary`; then all other tables, folded. A part that does not fit
    loses its last rows, and the page says how many.

    Args:
        tables: The tables.
        most: The bytes that may be used.
        origin: Names where everything is.
    """
    if most < _FEWEST:
        return ""
    known = [_clipped(shown(table)) for table in tables]
    alarms = [table for table in known if table.role == "alarm"]
    others = [table for table in known if table.role != "alarm"]
    bad = [found for table in others if (found := _bad(table)) is not None]
    summaries = [table for table in others if table.role == "summary"]
    details = [table for table in others if table.role == "detail"]
    room = most - _FOOTER
    page = _Pages()
    counts = page.lines(_count_lines(others), room // 4)
    room -= _size(counts)
    # The summary is small, and must not be pushed out by many failures.
    top = page.parts(alarms, room // 3, _plain)
    room -= _size(top)
    middle = page.parts(summaries, room // 2, _plain)
    room -= _size(middle)
    failures = page.parts(bad, room * 3 // 4 if details else room, _plain)
    room -= _size(failures)
    folded = page.parts(details, room, _folded)
    return top + counts + failures + middle + folded + page.footer(origin)


class _Pages:
    """Renders parts of a page in a given room, and counts what does not fit."""

    def __init__(self) -> None:
        self._rows = 0
        self._notes = 0

    def lines(self, lines: Sequence[str], room: int) -> str:
        """Returns as many lines as fit, followed by an empty line."""
        kept: list[str] = []
        for line in lines:
            if _size("\n".join([*kept, line])) + 2 > room:
                break
            kept.append(line)
        self._notes += len(lines) - len(kept)
        return "\n".join([*kept, "", ""]) if kept else ""

    def parts(self, tables: Sequence[Table], room: int, wrap: Callable[[Table], str]) -> str:
        """Returns tables of at most `room` bytes together. Each may take an equal part of what is left."""
        found = ""
        for number, table in enumerate(tables):
            text = self._part(table, (room - _size(found)) // (len(tables) - number), wrap)
            found += text
        return found

    def _part(self, table: Table, room: int, wrap: Callable[[Table], str]) -> str:
        """Returns a table with as many of its first rows as fit, then as many of its notes."""
        bare = replace(table, notes=())
        count = _most(len(table.rows), lambda rows: _size(wrap(_first(bare, rows, table))) <= room)
        if count < 0:
            self._rows += len(table.rows)
            self._notes += len(table.notes)
            return ""
        cut = _first(bare, count, table)
        notes = _most(len(table.notes), lambda some: _size(wrap(replace(cut, notes=table.notes[:some]))) <= room)
        self._rows += len(table.rows) - count
        self._notes += len(table.notes) - notes
        return wrap(replace(cut, notes=table.notes[:notes]))

    def footer(self, origin: str) -> str:
        """Returns what was left out, and where it is; nothing if all is there."""
        counts = ((self._rows, "row"), (self._notes, "note"))
        lost = [f"{count:,} {name}{'' if count == 1 else 's'}" for count, name in counts if count]
        if not lost:
            return ""
        place = f" {escape(origin[:_LONGEST_TEXT])} shows all." if origin else ""
        return f"Left out to keep this page short: {' and '.join(lost)}.{place}\n\n"


def _bad(table: Table) -> Table | None:
    """Returns the rows of a table that hold something bad, with the reasons; None if there is none."""
    rows = tuple(row for row in table.rows if any(text.style is Style.BAD for text in row.cells))
    reasons = tuple(note for note in table.notes if _FAILURE.match(note))
    if not rows:
        return None
    title = f"{len(rows):,} of {len(table.rows):,} rows need a look: {table.title}"
    return replace(table, title=title, rows=rows, notes=reasons)


def _first(table: Table, count: int, whole: Table) -> Table:
    """Returns the first rows of a table; its title says how many, if some are missing."""
    if count == len(whole.rows):
        return table
    return replace(table, title=f"{table.title} (first {count:,} of {len(whole.rows):,} rows)", rows=table.rows[:count])


def _count_lines(tables: Sequence[Table]) -> list[str]:
    """Returns how many cells passed, failed and so on, of each table that says so."""
    return [
        f"- **{escape(table.title)}**: {escape(_COUNTS.sub('', note))}"
        for table in tables
        for note in table.notes
        if _COUNTS.match(note)
    ]


def _plain(table: Table) -> str:
    return render_shown(table, padded=False) + "\n"


def _folded(table: Table) -> str:
    count = f"{len(table.rows):,} row{'' if len(table.rows) == 1 else 's'}"
    head = f"<details><summary>{html.escape(table.title)}: {count}</summary>\n\n"
    return f"{head}{render_shown(table, padded=False)}\n</details>\n\n"


def _clipped(table: Table) -> Table:
    """Returns a table whose texts are short enough for a page: data from outside may be of any length."""
    return replace(
        table,
        title=_clip(table.title, _LONGEST_TEXT),
        rows=tuple(
            Row(tuple(_clipped_text(text) for text in row.cells), _clip(row.group, _LONGEST_TEXT)) for row in table.rows
        ),
        notes=tuple(_clip(note, _LONGEST_NOTE) for note in table.notes),
    )


def _clipped_text(text: Text) -> Text:
    return text if len(text.text) <= _LONGEST_NOTE else replace(text, text=_clip(text.text, _LONGEST_NOTE))


def _clip(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"


def _most(count: int, fits: Callable[[int], bool]) -> int:
    """Returns the largest number up to `count` that fits, where all smaller ones fit too; -1 if none does."""
    low, high = -1, min(8, count)
    while fits(high):
        if high == count:
            return count
        low, high = high, min(2 * high, count)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


def _size(text: str) -> int:
    return len(text.encode())
