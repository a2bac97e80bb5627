"""Makes the table that lists the runs of a folder."""

from collections.abc import Mapping

from reports.errors import ReportError
from reports.pages.phrases import outcome_counts
from reports.pages.run_notes import device_name
from reports.records.record import last_by_cell
from reports.records.run_file import Completeness, RunFile
from reports.render.layout import Column, Row, Style, Table, Text
from reports.render.units import count_text


def run_table(runs: Mapping[str, RunFile | ReportError], folder: str) -> Table:
    """Returns a row per run: its profile, commit and device, and how its cells ended.

    A run can be unreadable, damaged or incomplete. The last two are said beside the numbers of its cells.
    """
    facts = "run"
    columns = (
        Column("run", align="left"),
        Column("profile", facts, align="left", drop=1),
        Column("commit", facts, align="left", drop=2),
        *(Column(name, "cells") for name in ("passed", "failed", "skipped", "missing")),
        Column("", "device", align="left"),
    )
    return Table(f"Runs in {folder}", columns, tuple(_row(name, records) for name, records in runs.items()))


def _row(name: str, found: RunFile | ReportError) -> Row:
    if isinstance(found, ReportError):
        nothing = Text("")
        unreadable = Text("unreadable", Style.BAD, span=True)
        return Row((Text(name), nothing, nothing, unreadable, nothing, nothing, nothing, nothing))
    records = found.records
    run = records[-1].run
    counts = outcome_counts(record.status for record in last_by_cell(records))
    changed = "+" if run.source.dirty else ""
    return Row(
        (
            Text(name),
            Text(run.profile),
            Text((run.source.commit or "unknown")[:10] + changed),
            Text(count_text(counts["passed"])),
            Text(count_text(counts["failed"]), Style.BAD if counts["failed"] else Style.PLAIN),
            Text(count_text(counts["skipped"])),
            _missing(found),
            Text(", ".join(dict.fromkeys(device_name(record.run) for record in records))),
        )
    )


def _missing(found: RunFile) -> Text:
    if found.problems:
        return Text("DAMAGED", Style.BAD)
    match found.completeness:
        case Completeness.UNKNOWN:
            return Text("unknown", Style.FAINT)
        case Completeness.INCOMPLETE:
            return Text(f"INCOMPLETE {count_text(len(found.missing))}", Style.BAD)
    return Text("0")
