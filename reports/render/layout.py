"""Describes tables of finished texts, and makes them fit a width.

Numbers are never wrapped or cut. A table that is too wide loses optional columns first. Then it is split into several.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import groupby
from typing import Literal

from reports.render.plain_text import to_ascii
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
    """The finished text of one cell. With `span`, it fills its whole column group."""

    text: str
    style: Style = Style.PLAIN
    span: bool = False


@dataclass(frozen=True, slots=True)
class Column:
    """A column.

    Attributes:
        header: Its header.
        group: The group that it belongs to. Labels have none: if a table is split, they are in every part.
        align: The side that its texts are aligned to.
        drop: If the table is too wide, columns with the highest number go first; 0 stays.
        note: Explains the header below the table, as long as the column is there.
    """

    header: str
    group: str = ""
    align: Literal["left", "right"] = "right"
    drop: int = 0
    note: str = ""


@dataclass(frozen=True, slots=True)
class Row:
    """One text per column. Rows of one `group` are together, under its name."""

    cells: tuple[Text, ...]
    group: str = ""


@dataclass(frozen=True, slots=True)
class Table:
    """A table.

    Attributes:
        title: Its title.
        columns: Its columns.
        rows: Its rows.
        notes: Sentences below it.
        row_group: The header of the groups of rows.
        best: Explains the mark of `Style.BEST`.
        role: What the page of a job does with it: an `alarm` comes first, a `summary` next, a `detail` is folded.
    """

    title: str
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    notes: tuple[str, ...] = ()
    row_group: str = ""
    best: str = "fastest of its row"
    role: Literal["alarm", "summary", "detail"] = "detail"


GAP = 1
"""Characters between columns of a group."""

GROUP_GAP = 3
"""Characters between groups, with room for a line."""


def shown(table: Table, *, ascii_only: bool = False) -> Table:
    """Returns the table with all control characters in its texts escaped, see `visible`; on request in plain ASCII."""

    def said(text: str) -> str:
        return to_ascii(visible(text)) if ascii_only else visible(text)

    return replace(
        table,
        title=said(table.title),
        columns=tuple(
            replace(one, header=said(one.header), group=said(one.group), note=said(one.note)) for one in table.columns
        ),
        rows=tuple(
            Row(tuple(replace(text, text=said(text.text)) for text in row.cells), said(row.group)) for row in table.rows
        ),
        notes=tuple(map(said, table.notes)),
        row_group=said(table.row_group),
        best=said(table.best),
    )


def fit(table: Table, width: int, margin: int = 0) -> list[Table]:
    """Returns the table, or several tables with the same labels, of at most `width` characters each.

    Optional columns go before the table is split: few tables are better than many columns. If the labels and the widest
    group are wider than `width`, the table stays wider, because nothing is cut. The last of several tables has the
    notes: of the columns that stayed, and which columns were left out. With `margin` more characters in a line, which
    the caller needs itself, these would be there.
    """
    levels = sorted({column.drop for column in table.columns} - {0}, reverse=True)
    fuller_first = [table, *(_without(table, level) for level in levels)]
    most = max(1, len(_groups(table)))
    attempts = (_deal(candidate, count) for count in range(1, most + 1) for candidate in fuller_first)
    fitting = (parts for parts in attempts if all(table_width(part) <= width for part in parts))
    parts = next(fitting, None) or _deal(fuller_first[-1], most)
    notes = [column.note for part in parts for column in part.columns if column.note]
    notes += _left_out(table, parts, table_width(table) + margin)
    return [
        replace(
            part,
            title=f"{table.title} ({number} of {len(parts)})" if len(parts) > 1 else table.title,
            notes=(*dict.fromkeys(notes), *table.notes) if number == len(parts) else (),
        )
        for number, part in enumerate(parts, start=1)
    ]


def _left_out(table: Table, parts: Sequence[Table], needed: int) -> list[str]:
    """Returns a sentence about the optional columns that were left out; none if all are there."""
    kept = {(column.group, column.header) for part in parts for column in part.columns}
    lost = [column.header for column in table.columns if (column.group, column.header) not in kept]
    if not lost or not table.rows:
        return []
    named = ", ".join(dict.fromkeys(filter(None, lost)))
    return [f"left out, the lines are too short: {named}. --width {needed} shows all columns"]


def shown_length(text: Text) -> int:
    """Returns the number of characters of a text. The best one has a mark before it."""
    return len(text.text) + (text.style is Style.BEST)


def group_spans(columns: Sequence[Column]) -> list[tuple[str, range]]:
    """Returns the name and the column numbers of each group of neighbouring columns."""
    spans = []
    for name, members in groupby(range(len(columns)), key=lambda i: columns[i].group):
        numbers = list(members)
        spans.append((name, range(numbers[0], numbers[-1] + 1)))
    return spans


def column_widths(table: Table) -> list[int]:
    """Returns the width of each column. The first of a group is wide enough for the name and for spanning texts."""
    widths = [len(column.header) for column in table.columns]
    for row in table.rows:
        for i, text in enumerate(row.cells):
            if not text.span:
                widths[i] = max(widths[i], shown_length(text))
    for name, numbers in group_spans(table.columns):
        leads = [row.cells[numbers[0]] for row in table.rows]
        needed = max([len(name), *(len(lead.text) for lead in leads if lead.span)])
        room = sum(widths[i] for i in numbers) + GAP * (len(numbers) - 1)
        widths[numbers[0]] += max(0, needed - room)
    return widths


def table_width(table: Table) -> int:
    """Returns the width of the widest line, without title and notes."""
    widths = column_widths(table)
    spans = group_spans(table.columns)
    gaps = sum(GAP * (len(numbers) - 1) for _, numbers in spans) + GROUP_GAP * (len(spans) - 1)
    return sum(widths) + gaps


def _groups(table: Table) -> list[range]:
    return [numbers for name, numbers in group_spans(table.columns) if name]


def _without(table: Table, level: int) -> Table:
    return _keep(table, [i for i, column in enumerate(table.columns) if column.drop < level])


def _deal(table: Table, count: int) -> list[Table]:
    """Returns the table in `count` parts. Each has the labels and about the same number of groups."""
    labels = [i for i, column in enumerate(table.columns) if not column.group]
    groups = _groups(table)
    parts = []
    for number in range(count):
        own = groups[len(groups) * number // count : len(groups) * (number + 1) // count]
        parts.append(_keep(table, labels + [i for numbers in own for i in numbers]))
    return parts


def _keep(table: Table, numbers: Sequence[int]) -> Table:
    return replace(
        table,
        columns=tuple(table.columns[i] for i in numbers),
        rows=tuple(replace(row, cells=tuple(row.cells[i] for i in numbers)) for row in table.rows),
    )
