"""Records the results of kernels, and shows and compares the recorded runs. Imports no JAX.

Rooms, from the bottom to the top:

    records     the record of a cell, and the files of runs
    statistics  ratios with intervals, ties and verdicts
    render      tables as text: for a terminal, as Markdown, or to files
    pages       from records to tables and frames
    gate        whether a comparison lets a change pass
    web         one HTML file of recorded runs
    cli         the commands that read runs

This package imports fast. `to_frame` needs pandas, which is imported when it is first used.
"""

from typing import TYPE_CHECKING, Any

from reports.errors import (
    DamagedLine,
    NewerSchema,
    RecordError,
    ReportError,
    RunNotFound,
    RunUnreadable,
    RunUnwritable,
)
from reports.judgement import Judgement, judge
from reports.pages.compare import Comparison, compare
from reports.records.cell import Cell
from reports.records.cell_result import CellResult
from reports.records.header import Device, Host, Run, Source
from reports.records.measurements import Accuracy, DispatchFacts, ProcessTimes, Resources, Stages, Timing
from reports.records.record import Record, last_by_cell
from reports.records.run_file import RunFile, load_run
from reports.records.run_writer import RunWriter
from reports.records.status import Status
from reports.records.store import completed, find_run, list_runs, new_run_id, run_path
from reports.statistics.means import GeometricMean, geometric_mean
from reports.statistics.verdict_codes import Code, Verdict

if TYPE_CHECKING:
    from reports.pages.data_frame import to_frame

__all__ = [
    "Accuracy",
    "Cell",
    "CellResult",
    "Code",
    "Comparison",
    "DamagedLine",
    "Device",
    "DispatchFacts",
    "GeometricMean",
    "Host",
    "Judgement",
    "NewerSchema",
    "ProcessTimes",
    "Record",
    "RecordError",
    "ReportError",
    "Resources",
    "Run",
    "RunFile",
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
    "judge",
    "last_by_cell",
    "list_runs",
    "load_run",
    "new_run_id",
    "run_path",
    "to_frame",
]


def __getattr__(name: str) -> Any:
    if name == "to_frame":
        from reports.pages.data_frame import to_frame

        return to_frame
    raise AttributeError(f"module 'reports' has no attribute {name!r}")
