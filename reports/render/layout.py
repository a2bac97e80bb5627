"""Describes tables of finished texts, and leaves optional columns out where a line has no room for them."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Literal

from reports.render.visible import visible

LEAST_WIDTH = 40
"""Characters of the shortest line that a table is made for, also where a terminal says that it has fewer."""


class Style(StrEnum):
    """The meaning of a text. Each renderer decides how it looks."""

    PLAIN = "plain"
    BEST = "best"
    BAD = "bad"
    FAINT = "faint"


@dataclass(frozen=True, slots=True)
class Text:
    """The finished text of one cell."""

    text: str
    style: Style = Style.PLAIN


@dataclass(frozen=True, slots=True)
class Column:
    """A column.

    Attributes:
        header: Its header.
        align: The side that its texts are aligned to.
        drop: If the table is too wide, columns with the highest number go first; 0 stays.
        note: Explains the header below the table, as long as the column is there.
    """

    header: str
    align: Literal["left", "right"] = "right"
    drop: int = 0
    note: str = ""


Row = tuple[Text, ...]
"""One text per column."""


@dataclass(frozen=True, slots=True)
class Table:
    """A table.

    Attributes:
        title: Its title.
        columns: Its columns.
        rows: Its rows.
        notes: Sentences below it.
        best: Explains the mark of `Style.BEST`.
        role: What the page of a job does with it: an `alarm` comes first, a `summary` next, a `detail` is folded.
    """

    title: str
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    notes: tuple[str, ...] = ()
    best: str = ""
    role: Literal["alarm", "summary", "detail"] = "detail"


def shown(table: Table) -> Table:
    """Returns the table with all control characters in its texts escaped, see `visible`."""
    return replace(
        table,
        title=visible(table.title),
        columns=tuple(replace(one, header=visible(one.header), note=visible(one.note)) for one in table.columns),
        rows=tuple(tuple(Text(visible(text.text), text.style) for text in row) for row in table.rows),
        notes=tuple(map(visible, table.notes)),
    )


def notes_of(table: Table, mark: str) -> list[str]:
    """Returns the sentences below a table: what the mark of the best means, the notes of its columns, its own."""
    marked = any(text.style is Style.BEST for row in table.rows for text in row)
    columns = dict.fromkeys(column.note for column in table.columns if column.note)
    return [*([f"{mark}: {table.best}"] if marked and table.best else []), *columns, *table.notes]


def fit(table: Table, width: int) -> Table:
    """Returns the table without the optional columns that lines of `width` characters have no room for.

    A note names what was left out. If the other columns are wider than `width`, the table stays wider.
    """
    needed = widths = column_widths(table)
    levels = sorted({column.drop for column in table.columns}, reverse=True)
    kept = list(range(len(table.columns)))
    for level in levels[:-1]:
        if line_width(widths) <= width:
            break
        kept = [place for place in kept if table.columns[place].drop < level]
        widths = [needed[place] for place in kept]
    lost = [column.header for place, column in enumerate(table.columns) if place not in kept]
    if not lost:
        return table
    note = f"left out, the lines are too short: {', '.join(lost)}. COLUMNS={line_width(needed)} shows all columns"
    return only(replace(table, notes=(*table.notes, note)), kept)


def only(table: Table, places: Sequence[int]) -> Table:
    """Returns the table with the columns at these places."""
    rows = tuple(tuple(row[place] for place in places) for row in table.rows)
    return replace(table, columns=tuple(table.columns[place] for place in places), rows=rows)


GAP = 2
"""Characters between columns."""


def column_widths(table: Table) -> list[int]:
    """Returns the width of each column; the best of a row has a mark before it."""
    widths = [len(column.header) for column in table.columns]
    for row in table.rows:
        for place, text in enumerate(row):
            widths[place] = max(widths[place], len(text.text) + (text.style is Style.BEST))
    return widths


def line_width(widths: Sequence[int]) -> int:
    """Returns the width of a line of columns."""
    return sum(widths) + GAP * (len(widths) - 1)
