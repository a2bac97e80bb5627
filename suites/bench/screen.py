"""Shows the progress of a timing session on standard error."""

from __future__ import annotations

import time

import msgspec
from rich.console import Console

from reports import CellResult
from reports.records.cell import short_dtype
from reports.render.units import count_text, ratio_text, time_text
from reports.render.visible import visible
from suites.bench.messages import Event, Started, Timed


class Screen:
    """Prints a line for each cell that ends, and on a terminal a last line with the progress."""

    def __init__(self) -> None:
        self._console = Console(stderr=True, highlight=False)
        self._status = self._console.status("starting") if self._console.is_terminal else None
        self._begun = time.monotonic()
        self._total = self._done = 0
        self._baseline: dict[object, float] = {}

    def __enter__(self) -> None:
        if self._status:
            self._status.start()

    def __exit__(self, *exception: object) -> None:
        if self._status:
            self._status.stop()

    def show_event(self, event: Event) -> None:
        """Shows the state of the processes."""
        match event:
            case Started(cell):
                self._update(f"compiling {visible(cell.id)}")
            case Timed(results) if results:
                self._update(f"timing {visible(results[0].cell.operator)}")

    def begin(self, cells: int, path: str) -> None:
        """Shows how many cells there are."""
        self._total = self._done + cells
        self._line(f"{count_text(cells)} cells, recorded in {path}; all are compiled and checked before they are timed")

    def show(self, result: CellResult) -> None:
        """Shows the result of a cell, and the ratio of its time to that of jnp, which ends before it."""
        self._done += 1
        cell, median_ns = result.cell, result.timing.median_ns if result.timing else None
        what = f"{cell.operator:18.18} {short_dtype(cell.dtype):4} {count_text(cell.size):>10}  {cell.backend:19.19}"
        if median_ns is None:
            self._line(f"{what} {result.status}: {' '.join((result.reason or '').split())}", "red")
            return
        key = msgspec.structs.replace(cell, backend="").key
        if cell.backend == "jnp":
            self._baseline[key] = median_ns
        base = self._baseline.get(key)
        ratio = f"{ratio_text(median_ns / base):>6}x jnp" if base and cell.backend != "jnp" else ""
        self._line(f"{what} {time_text(median_ns):>8} {ratio}".rstrip())

    def _progress(self) -> str:
        if not self._total:
            return ""
        return f"[{self._done}/{self._total}, {time.monotonic() - self._begun:.0f} s] "

    def _update(self, text: str) -> None:
        if self._status:
            self._status.update(f"{self._progress()}{text}")

    def _line(self, text: str, style: str = "") -> None:
        self._console.print(visible(text), style=style, soft_wrap=True, markup=False)
