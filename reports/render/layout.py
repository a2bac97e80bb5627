"""Describes tables of texts, and leaves optional columns out if a line has no room for them."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Literal

from reports.render.visible import visible

LEAST_WIDTH = 40
"""Least characters of a line, even if a terminal reports fewer."""


class Style(StrEnum):
    """The meaning of a text. Each renderer decides how it looks."""

    PLAIN = "plain"
    BEST = "best"
    BAD = "bad"
    FAINT = "faint"


@dataclass(frozen=True, slots=True)
class Text:
    """The text of one cell of a table."""

    text: str
    style: Style = Style.PLAIN


@dataclass(frozen=True, slots=True)
class Column:
    """A column.

    Attributes:
        header: Its header.
        align: The alignment of its texts.
        drop: If the table is too wide, columns with the highest number are dropped first; 0 stays.
        note: Explains the header below the table, if the column is shown.
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
        role: Its place in the page of a job: an `alarm` comes first, a `summary` next, a `detail` is folded.
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
    """Returns the sentences below a table: on the mark of the best, on its columns, and its own notes."""
    marked = any(text.style is Style.BEST for row in table.rows for text in row)
    columns = dict.fromkeys(column.note for column in table.columns if column.note)
    return [*([f"{mark}: {table.best}"] if marked and table.best else []), *columns, *table.notes]


def fit(table: Table, width: int) -> Table:
    """Returns the table without the optional columns for which lines of `width` characters have no room.

    A note names these columns. If the other columns are wider than `width`, the table is wider.
    """
    needed = widths = column_widths(table)
    levels = sorted({column.drop for column in table.columns}, reverse=True)
    columns = list(range(len(table.columns)))
    for level in levels[:-1]:
        if line_width(widths) <= width:
            break
        columns = [index for index in columns if table.columns[index].drop < level]
        widths = [needed[index] for index in columns]
    dropped = [column.header for index, column in enumerate(table.columns) if index not in columns]
    if not dropped:
        return table
    note = f"left out, the lines are too short: {', '.join(dropped)}. COLUMNS={line_width(needed)} shows all columns"
    return only(replace(table, notes=(*table.notes, note)), columns)


def only(table: Table, indices: Sequence[int]) -> Table:
    """Returns the table with the columns at these indices."""
    rows = tuple(tuple(row[index] for index in indices) for row in table.rows)
    return replace(table, columns=tuple(table.columns[index] for index in indices), rows=rows)


GAP = 2
"""Characters between columns."""


def column_widths(table: Table) -> list[int]:
    """Returns the width of each column; the best of a row has a mark before it."""
    widths = [len(column.header) for column in table.columns]
    for row in table.rows:
        for index, text in enumerate(row):
            widths[index] = max(widths[index], len(text.text) + (text.style is Style.BEST))
    return widths


def line_width(widths: Sequence[int]) -> int:
    """Returns the width of a line of columns."""
    return sum(widths) + GAP * (len(widths) - 1)
