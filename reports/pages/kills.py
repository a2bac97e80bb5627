"""Makes the table of broken kernels: which checks caught each of them."""

from collections.abc import Iterable

from reports.pages.rows import by_run_and_platform, cell_rows
from reports.pages.run_notes import platform_name, run_notes
from reports.records.record import Record
from reports.records.status import Status
from reports.render.layout import Column, Style, Table, Text


def kill_tables(records: Iterable[Record]) -> list[Table]:
    """Returns, for each run and platform, a row for each broken kernel that ran, with the checks that caught it."""
    tables = []
    columns = (Column("broken kernel", align="left"), Column("backend", align="left"), Column("by", align="left"))
    for rows in by_run_and_platform(cell_rows(records)):
        caught = {row.cell.operator: [row.cell.backend] for row in rows if row.status is not Status.SKIPPED}
        for row in rows:
            if row.status.wrong and row.cell.mode not in caught[row.cell.operator]:
                caught[row.cell.operator].append(row.cell.mode)
        lines = [
            (Text(name), Text(backend),
             Text(", ".join(checks) if checks else "SURVIVED", Style.PLAIN if checks else Style.BAD))
            for name, (backend, *checks) in sorted(caught.items())
        ]  # fmt: skip
        alive = sum(len(each) == 1 for each in caught.values())
        notes = (f"{len(caught)} broken kernels, {len(caught) - alive} caught", *run_notes(rows))
        tables.append(Table(f"Broken kernels on {platform_name(rows[0].run)}", columns, tuple(lines), notes))
    return tables
