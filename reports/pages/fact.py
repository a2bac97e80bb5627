"""Provides the types that describe a column: its meaning, its source in a record, and its look in a table."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from reports.pages.rows import CellRow
from reports.render.layout import Text

Value = str | int | float | bool | None
Read = Callable[[CellRow], Value]


class Kind(StrEnum):
    """The type of the values of a column."""

    TEXT = "text"
    JSON = "JSON"
    FLAG = "true or false"
    INTEGER = "integer"
    NUMBER = "number"


class TableKind(StrEnum):
    """A kind of table whose columns are defined here."""

    TIMES = "times"
    ACCURACY = "accuracy"
    STAGES = "stages"
    ALONE = "alone"
    BEFORE = "before"


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """How a table shows a column.

    Attributes:
        table: The table.
        header: Header of the column.
        text: Writes the value of a row.
        hint: The note below the table, or a function that makes it from the rows of the table.
        drop: Where a table is too wide, the columns with the highest number go first; 0 stays.
        baseline: Whether the column is shown for the baseline too.
    """

    table: TableKind
    header: str
    text: Callable[[CellRow], Text]
    hint: str | Callable[[Sequence[CellRow]], str] = ""
    drop: int = 0
    baseline: bool = True


@dataclass(frozen=True, slots=True)
class Fact:
    """One column.

    Attributes:
        name: Its name in frames, CSV and JSON.
        description: One line about it.
        read: Reads its value from a row; None where there is none.
        kind: The type of its values. A frame has JSON as text.
        unit: The unit of its values.
        shown: How a table shows it, if one does.
        also: How a second table shows it.
    """

    name: str
    description: str
    read: Read
    kind: Kind = Kind.TEXT
    unit: str = ""
    shown: Shown | None = None
    also: Shown | None = None
