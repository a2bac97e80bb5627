"""Makes a pandas DataFrame of records: a row per cell, a column per fact."""

from collections.abc import Iterable, Sequence

import pandas as pd

from reports.pages.columns import FACTS, Kind
from reports.pages.rows import CellRow, cell_rows
from reports.records.record import Record

_DTYPES = {Kind.INTEGER: "Int64", Kind.NUMBER: "float64"}

JSON_COLUMNS = tuple(fact.name for fact in FACTS if fact.kind is Kind.JSON)
"""The columns that hold lists and mappings as JSON text."""


def to_frame(records: Iterable[Record]) -> pd.DataFrame:
    """Returns one row per run and cell, in the order recorded.

    The last record of a cell counts, since a resumed run may run a cell again. A failed or skipped cell is a row too;
    its times are NaN, never zero. A missing text is None or NaN, a missing number is NaN.
    `reports.pages.columns` describes the columns.
    """
    return rows_to_frame(cell_rows(records))


def rows_to_frame(rows: Sequence[CellRow]) -> pd.DataFrame:
    """Returns the frame of these rows."""
    columns = {fact.name: [fact.read(row) for row in rows] for fact in FACTS}
    return pd.DataFrame(
        {fact.name: pd.Series(columns[fact.name], dtype=_DTYPES.get(fact.kind, "object")) for fact in FACTS}
    )
