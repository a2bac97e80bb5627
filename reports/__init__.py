"""Recorded evidence in, pages out: tables, comparisons, and soon a gate. Imports no JAX.

The stages, in the order data takes:

    record          what one cell showed; `codec` writes it as a line of JSON
    store           run files: write, find, read, resume
    frame           records -> one pandas DataFrame
    compare         base x head -> verdicts
    tables          frame -> tables of finished texts (`validation`, `compare_table`, `run_table` likewise)
    layout          tables -> tables that fit a width
    terminal, markdown          one renderer per format
    __main__        python -m reports show | compare | list

Importing this package is cheap: `to_frame`, which needs pandas, is loaded when first used.
"""

from typing import TYPE_CHECKING, Any

from reports.errors import (
    DamagedLine,
    DamagedLineWarning,
    NewerSchema,
    RecordError,
    ReportError,
    RunNotFound,
    RunUnreadable,
    RunUnwritable,
)
from reports.pages.compare import Comparison, GeometricMean, Verdict, compare, geometric_mean
from reports.records.quantiles import median_relative_error
from reports.records.record import (
    SCHEMA,
    Accuracy,
    Cell,
    Device,
    Host,
    Record,
    Run,
    Source,
    Stages,
    Status,
    Timing,
    last_by_cell,
)
from reports.records.store import RunWriter, completed, find_run, list_runs, new_run_id, read_run, run_path

if TYPE_CHECKING:
    from reports.pages.frame import to_frame

__all__ = [
    "SCHEMA",
    "Accuracy",
    "Cell",
    "Comparison",
    "DamagedLine",
    "DamagedLineWarning",
    "Device",
    "GeometricMean",
    "Host",
    "NewerSchema",
    "Record",
    "RecordError",
    "ReportError",
    "Run",
    "RunNotFound",
    "RunUnreadable",
    "RunUnwritable",
    "RunWriter",
    "Source",
    "Stages",
    "Status",
    "Timing",
    "Verdict",
    "compare",
    "completed",
    "find_run",
    "geometric_mean",
    "last_by_cell",
    "list_runs",
    "median_relative_error",
    "new_run_id",
    "read_run",
    "run_path",
    "to_frame",
]


def __getattr__(name: str) -> Any:
    if name == "to_frame":
        from reports.pages.frame import to_frame

        return to_frame
    raise AttributeError(f"module 'reports' has no attribute {name!r}")
