"""Makes a pandas DataFrame of records: a row per cell, a column per fact."""

from collections.abc import Iterable, Sequence
from pathlib import Path

import pandas as pd

from reports.pages.columns import FACTS, Kind
from reports.pages.rows import CellRow, cell_rows
from reports.records.record import Record
from reports.records.run_file import RunFile, load_run
from reports.records.store import find_run

_DTYPES = {Kind.INTEGER: "Int64", Kind.NUMBER: "float64"}

JSON_COLUMNS = tuple(fact.name for fact in FACTS if fact.kind is Kind.JSON)
"""The columns that hold lists and mappings as JSON text."""


def to_frame(source: RunFile | str | Path | Iterable[Record]) -> pd.DataFrame:
    """Returns one row per run and cell, in the order recorded. Times are in seconds.

    The last record of a cell counts, since a resumed run may run a cell again. A failed or skipped cell is a row too;
    its times are NaN, never zero. A missing text is None or NaN, a missing number is NaN.
    The page on columns describes them all.

    Args:
        source: A run as `load_run` returns it; its path, id or `latest`, as for `find_run`; or records, which can be of
            several runs.

    Raises:
        RunNotFound: No run has this name.
        RunUnreadable: The file is no run.
    """
    if isinstance(source, str | Path):
        source = load_run(find_run(source))
    return rows_to_frame(cell_rows(source.records if isinstance(source, RunFile) else source))


def rows_to_frame(rows: Sequence[CellRow]) -> pd.DataFrame:
    """Returns the frame of these rows."""
    columns = {fact.name: [fact.read(row) for row in rows] for fact in FACTS}
    return pd.DataFrame(
        {fact.name: pd.Series(columns[fact.name], dtype=_DTYPES.get(fact.kind, "object")) for fact in FACTS}
    )
