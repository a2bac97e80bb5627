"""Arranges cells in a grid: a row per operator, dtype and size, a group of columns per backend."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from reports.pages.columns import facts_of, hint_text
from reports.pages.fact import Fact, Shown, TableKind
from reports.pages.groups import dtype_order, group_names
from reports.pages.rows import BASELINE, CellRow, backends_of
from reports.records.cell import short_dtype
from reports.records.status import Status
from reports.render.layout import Column, Row, Style, Text
from reports.render.units import TIED, count_text

EMPTY = Text("")

_CACHE = "cache"
"""The parameter with the state of a GPU's cache. It has a column: an operator may be hot at small sizes only."""


@dataclass(frozen=True, slots=True)
class Placed:
    """A row of cells with its place in a table."""

    group: str
    row: CellRow

    @property
    def order(self) -> tuple[str, tuple[str, int], int, str]:
        """Sorts by group, dtype, size and cache. Cells of different backends stand in one line if this is equal."""
        return self.group, dtype_order(self.row.cell.dtype), self.row.cell.size, self.cache

    @property
    def cache(self) -> str:
        """The state of the cache, on a GPU: `hot` or `cold`."""
        return str(self.row.cell.params.get(_CACHE, ""))


def label_columns(rows: Sequence[CellRow]) -> tuple[Column, ...]:
    """Returns the columns in front of a table: dtype, size, and the state of the cache if some cell has one."""
    columns = Column("dtype", align="left"), Column("size")
    return (*columns, Column(_CACHE, align="left")) if any(_CACHE in row.cell.params for row in rows) else columns


def label_texts(one: Placed, columns: Sequence[Column]) -> list[Text]:
    """Returns the texts of a row in the columns of `label_columns`."""
    texts = [Text(short_dtype(one.row.cell.dtype)), Text(count_text(one.row.cell.size)), Text(one.cache)]
    return texts[: len(columns)]


def placed(rows: Sequence[CellRow]) -> list[Placed]:
    """Returns the rows in the order of a table: by group, dtype, size and cache."""
    names = group_names([row.cell for row in rows], without=(_CACHE,))
    return sorted((Placed(name, row) for name, row in zip(names, rows, strict=True)), key=lambda one: one.order)


def filled_columns(table: TableKind, rows: Sequence[CellRow]) -> list[tuple[Fact, Shown]]:
    """Returns the columns of a table that have a value in some row, and always the first."""
    first, *others = facts_of(table)
    return [first, *(one for one in others if any(one[0].read(row) is not None for row in rows))]


def fact_texts(columns: Sequence[tuple[Fact, Shown]], row: CellRow) -> list[Text]:
    """Returns the texts of a cell in these columns. If it has no value in any of them, its status fills them."""
    if any(fact.read(row) is not None for fact, _ in columns):
        return [shown.text(row) for _, shown in columns]
    faint = row.status in (Status.PASSED, Status.SKIPPED)
    status = Text(row.status, Style.FAINT if faint else Style.BAD, span=True)
    return [status, *[EMPTY] * (len(columns) - 1)]


def backend_grid(
    rows: Sequence[CellRow], table: TableKind, best: Collection[CellRow] = (), tied: Collection[CellRow] = ()
) -> tuple[tuple[Column, ...], tuple[Row, ...]]:
    """Returns the columns and rows of a grid.

    Args:
        rows: The cells.
        table: The kind of table, which decides the columns of each backend.
        best: The cells whose first column is marked.
        tied: Those of them that share the mark with others, and get a sign for it.
    """
    filled = filled_columns(table, rows)
    own = {
        backend: [(fact, shown) for fact, shown in filled if shown.baseline or backend != BASELINE]
        for backend in backends_of(rows)
    }
    columns = [
        Column(shown.header, backend, drop=shown.drop, note=hint_text(shown, rows))
        for backend, shown_here in own.items()
        for _, shown in shown_here
    ]
    labels = label_columns(rows)
    lines: dict[tuple[object, ...], dict[str, Placed]] = {}
    for one in placed(rows):
        lines.setdefault(one.order, {})[one.row.cell.backend] = one
    made = []
    for line in lines.values():
        some = next(iter(line.values()))
        texts = label_texts(some, labels)
        for backend, shown_here in own.items():
            texts += _texts(line[backend].row, shown_here, best, tied) if backend in line else [EMPTY] * len(shown_here)
        made.append(Row(tuple(texts), some.group))
    return (*labels, *columns), tuple(made)


def _texts(
    row: CellRow, columns: Sequence[tuple[Fact, Shown]], best: Collection[CellRow], tied: Collection[CellRow]
) -> list[Text]:
    first, *others = fact_texts(columns, row)
    if row in best:
        first = replace(first, text=(TIED if row in tied else "") + first.text, style=Style.BEST)
    return [first, *others]
