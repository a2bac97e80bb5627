"""Shows the progress and the results of a timing session on standard error."""

from __future__ import annotations

import msgspec

from reports import Record
from reports.pages.columns import ratio_to_baseline_text
from reports.pages.rows import BASELINE, CellRow, cell_rows
from reports.records.cell import short_dtype
from reports.render.units import ABSENT, TIMES, count_text, time_text
from suites.bench.messages import Event, Started, Timed
from suites.processes.progress import Progress


class Screen(Progress):
    """Prints a line for each cell that ends, and on a terminal a last line with the progress."""

    def __init__(self) -> None:
        super().__init__("cells", "prepare", "time")
        self._baselines: dict[object, Record] = {}

    def show_event(self, event: Event) -> None:
        """Shows the state of the processes."""
        match event:
            case Started(cell):
                self.show(f"compiling {cell.id}")
            case Timed(results) if results:
                self.show(f"timing {results[0].cell.operator}")

    def begin(self, cells: int, path: str) -> None:
        """Shows how many cells there are."""
        self.total = cells
        self.print(f"{count_text(cells)} cells, recorded in {path}; all are compiled and checked before they are timed")

    def show_record(self, record: Record) -> None:
        """Shows the result of a cell, with the ratio that the table will have; jnp ends before it."""
        row, cell = self.row(record), record.cell
        what = f"{cell.operator:18.18} {short_dtype(cell.dtype):4} {count_text(cell.size):>10}  {cell.backend:19.19}"
        if row.timing is None:
            self.print(f"{what} {record.status}: {' '.join((record.reason or '').split())}", "red")
            return
        text = ratio_to_baseline_text(row).text
        ratio = f"{text:>6}{TIMES}{BASELINE}" if text not in ("", ABSENT) else ""
        self.print(f"{what} {time_text(row.timing.median_ns):>8} {ratio}".rstrip())

    def row(self, record: Record) -> CellRow:
        """Returns a record with the baseline of its cell, if that ended before it in this session or a resumed one."""
        key = msgspec.structs.replace(record.cell, backend="").key
        if record.cell.backend == BASELINE:
            self._baselines[key] = record
        base = self._baselines.get(key)
        return cell_rows([record] if base in (None, record) else [base, record])[-1]
