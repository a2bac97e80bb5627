"""A table of finished texts in, the same table or several out, none wider than asked where columns allow it.

Numbers are never wrapped or cut: optional columns go first, then column groups move to further tables.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import groupby
from typing import Literal


class Style(StrEnum):
    """What a text means; each renderer decides how that looks."""

    PLAIN = "plain"
    BEST = "best"
    BAD = "bad"
    FAINT = "faint"


@dataclass(frozen=True, slots=True)
class Text:
    """The finished text of one cell. One with `span` takes the place of the rest of its column group."""

    text: str
    style: Style = Style.PLAIN
    span: bool = False


@dataclass(frozen=True, slots=True)
class Column:
    """A column: its group ("" for labels, which lead every table), and how soon it may go.

    Columns with the highest `drop` go first; 0 stays. The `note` explains the header and goes with it.
    """

    header: str
    group: str = ""
    align: Literal["left", "right"] = "right"
    drop: int = 0
    note: str = ""


@dataclass(frozen=True, slots=True)
class Row:
    """One text per column; rows of one `group` stand together under its name."""

    cells: tuple[Text, ...]
    group: str = ""


@dataclass(frozen=True, slots=True)
class Table:
    """A title, columns, rows, and notes below; `row_group` says what the rows' groups are, `best` what is marked."""

    title: str
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    notes: tuple[str, ...] = ()
    row_group: str = ""
    best: str = "fastest of its row"


GAP = 1
"""Characters between columns of a group."""

GROUP_GAP = 3
"""Characters between groups: room for a rule."""


def fit(table: Table, width: int) -> list[Table]:
    """Returns the table, or several with the same labels, of at most `width` characters each.

    The fewest tables come first, then the most columns: optional columns are given up before the groups are
    dealt out to more tables. A table whose labels and widest group alone exceed the width is returned wider:
    nothing is cut. Of several, the last carries the notes, those of the columns that stayed included.
    """
    levels = sorted({column.drop for column in table.columns} - {0}, reverse=True)
    fuller_first = [table, *(_without(table, level) for level in levels)]
    most = max(1, len(_groups(table)))
    attempts = (_deal(candidate, count) for count in range(1, most + 1) for candidate in fuller_first)
    fitting = (parts for parts in attempts if all(table_width(part) <= width for part in parts))
    parts = next(fitting, None) or _deal(fuller_first[-1], most)
    notes = [column.note for part in parts for column in part.columns if column.note]
    return [
        replace(
            part,
            title=f"{table.title} ({number} of {len(parts)})" if len(parts) > 1 else table.title,
            notes=(*dict.fromkeys(notes), *table.notes) if number == len(parts) else (),
        )
        for number, part in enumerate(parts, start=1)
    ]


def shown_length(text: Text) -> int:
    """Returns the characters a text takes; the best one has a mark before it."""
    return len(text.text) + (text.style is Style.BEST)


def group_spans(columns: Sequence[Column]) -> list[tuple[str, range]]:
    """Returns each run of columns with the same group, as its name and column numbers."""
    spans = []
    for name, members in groupby(range(len(columns)), key=lambda i: columns[i].group):
        numbers = list(members)
        spans.append((name, range(numbers[0], numbers[-1] + 1)))
    return spans


def column_widths(table: Table) -> list[int]:
    """Returns the characters each column needs; a group's first widens for its name and spanning texts."""
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
    """Returns the characters of the table's widest line, notes and title aside."""
    widths = column_widths(table)
    spans = group_spans(table.columns)
    gaps = sum(GAP * (len(numbers) - 1) for _, numbers in spans) + GROUP_GAP * (len(spans) - 1)
    return sum(widths) + gaps


def _groups(table: Table) -> list[range]:
    return [numbers for name, numbers in group_spans(table.columns) if name]


def _without(table: Table, level: int) -> Table:
    return _keep(table, [i for i, column in enumerate(table.columns) if column.drop < level])


def _deal(table: Table, count: int) -> list[Table]:
    """Returns the table in `count` parts, the labels in each and the groups dealt out evenly."""
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
