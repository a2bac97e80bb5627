"""Shows the progress of a timing session on standard error."""

from __future__ import annotations

import time

import msgspec
from rich.console import Console

from reports import Cell
from reports.records.cell import short_dtype
from reports.render.units import count_text, ratio_text, time_text
from reports.render.visible import visible
from suites.sessions.events import Ended, Opened


class Screen:
    """Prints a line for each cell that ends, and on a terminal a last line that changes."""

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

    def busy(self, what: str) -> None:
        """Shows that the session does something other than timing a cell."""
        if self._status:
            self._status.update(f"{self._place()}{what}")
        elif not self._done:
            self._line(what)

    def opened(self, event: Opened) -> None:
        """Shows how many cells there are."""
        self._total = self._done + event.cells
        if not self._done:
            self._line(f"{count_text(event.cells)} cells, recorded in {event.path}")

    def started(self, cell: Cell) -> None:
        """Shows the cell that begins."""
        if self._status:
            self._status.update(f"{self._place()}{visible(cell.id)}")

    def ended(self, event: Ended) -> None:
        """Shows the result of a cell, and its ratio to jnp, which is timed first."""
        self._done += 1
        cell = event.cell
        what = f"{cell.operator:18.18} {short_dtype(cell.dtype):4} {count_text(cell.size):>10}  {cell.backend:19.19}"
        if event.median_ns is None:
            self._line(f"{what} {event.status}: {' '.join((event.reason or '').split())}", "red")
            return
        key = msgspec.structs.replace(cell, backend="").key
        if cell.backend == "jnp":
            self._baseline[key] = event.median_ns
        base = self._baseline.get(key)
        ratio = f"{ratio_text(event.median_ns / base):>6}x jnp" if base and cell.backend != "jnp" else ""
        self._line(f"{what} {time_text(event.median_ns):>8} {ratio}".rstrip())

    def _place(self) -> str:
        if not self._total:
            return ""
        return f"[{self._done}/{self._total}, {time.monotonic() - self._begun:.0f} s] "

    def _line(self, text: str, style: str = "") -> None:
        self._console.print(visible(text), style=style, soft_wrap=True, markup=False)
