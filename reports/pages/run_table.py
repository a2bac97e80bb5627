"""Makes the table that lists the runs of a folder."""

from collections.abc import Mapping

from reports.errors import ReportError
from reports.pages.phrases import outcome_texts
from reports.pages.run_notes import device_name
from reports.records.record import last_by_cell
from reports.records.run_file import RunFile
from reports.render.layout import Column, Row, Style, Table, Text
from reports.render.units import count_text


def run_table(runs: Mapping[str, RunFile | ReportError], folder: str) -> Table:
    """Returns a row per run: its profile, commit and device, and how its cells ended.

    A run can be unreadable, damaged or incomplete. For the last two, the numbers of its cells are shown too.
    """
    columns = (
        Column("run", "left"), Column("profile", "left", drop=1), Column("commit", "left", drop=2),
        *map(Column, ("passed", "failed", "skipped")), Column("missing", "left"), Column("device", "left"),
    )  # fmt: skip
    return Table(f"Runs in {folder}", columns, tuple(_row(name, run) for name, run in runs.items()))


def _row(name: str, file: RunFile | ReportError) -> Row:
    nothing = Text("")
    if isinstance(file, ReportError):
        return (Text(name), *[nothing] * 5, Text("unreadable", Style.BAD), nothing)
    records = file.records
    if not (records or file.headers):
        return (Text(name), *[nothing] * 5, Text("no result", Style.FAINT), nothing)
    run = records[-1].run if records else file.headers[-1]
    changed = "+" if run.source.dirty else ""
    return (
        Text(name),
        Text(run.profile),
        Text((run.source.commit or "unknown")[:10] + changed),
        *outcome_texts(record.status for record in last_by_cell(records)),
        _missing(file),
        Text(", ".join(dict.fromkeys(device_name(record.run) for record in records)) or device_name(run)),
    )


def _missing(file: RunFile) -> Text:
    if file.problems:
        return Text("DAMAGED", Style.BAD)
    if not file.is_complete:
        return Text(f"INCOMPLETE {count_text(len(file.missing))}", Style.BAD)
    return Text("0")
