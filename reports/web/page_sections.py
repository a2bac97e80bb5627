"""Makes the sections of the page in their order; a section without data is left out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from reports.pages.alike import are_interleaved
from reports.pages.compare_table import comparison_table
from reports.pages.groups import group_names
from reports.pages.rows import BASELINE, CellRow, by_run_and_platform
from reports.pages.run_cells import cell_table
from reports.pages.run_notes import run_notes
from reports.pages.summary import summary_table
from reports.pages.verdicts import verdict_tables
from reports.records.cell import short_dtype
from reports.render.units import count_text
from reports.web.charts import figure, key, ratio_points, roof_points, time_points
from reports.web.headlines import comparisons, failures, tile_list
from reports.web.html_tables import html_table
from reports.web.kernel_grid import heat_map, kernels
from reports.web.lasting import lasting_list
from reports.web.markup import Content, Markup, element, joined
from reports.web.run_choice import Choice, Results, RunKind

FEWEST = 3
"""The least number of results of a cell for a chart of its history."""

MOST = 40
"""Most charts of a kind; a table has the numbers of all."""

NARROW, WIDE = 320, 640
"""Widths of charts in pixels: the first one fits on a phone, which scales the second one."""


@dataclass(frozen=True, slots=True)
class PageSection:
    """One section: its id, its word in the menu, its heading, and its content."""

    identity: str
    short: str
    title: str
    content: Markup

    @property
    def markup(self) -> Markup:
        """The section as an element with its heading."""
        name = f"head-{self.identity}"
        heading = element("h2", {"id": name, "tabindex": -1}, self.title)
        return element("section", {"id": self.identity, "aria-labelledby": name}, heading, self.content)


def page_sections(choice: Choice) -> list[PageSection]:
    """Returns the sections that have something to show."""
    timed = choice.of_kind(RunKind.TIMES)
    sections: list[tuple[str, str, str, Sequence[Content]]] = [
        ("summary", "Summary", "Is everything right?", [tile_list(choice), failures(choice)]),
        ("fastest", "Fastest", "Which backend is fastest?", [each for own in timed for each in _fastest(own)]),
        ("changes", "Changes", "What has changed?", [each for own in timed for each in _changes(own)]),
        ("verdicts", "Verdicts", "Verdicts of the checks", [
            html_table(table, closed=False, css="verdicts")
            for own in choice.of_kind(RunKind.CHECKS) for table in verdict_tables(own.rows)
        ]),
        ("times", "Times", "Time against size", [each for own in timed for each in _times(own)]),
        ("roofs", "Roofline", "Roofline", [each for own in timed for each in _roofs(own)]),
        ("history", "History", "Times by commit", [each for own in timed for each in _history(own)]),
        ("runs", "Runs", "Runs and machines", _runs(choice)),
    ]  # fmt: skip
    return [PageSection(name, short, title, joined(content)) for name, short, title, content in sections if content]


def _fastest(own: Results) -> list[Content]:
    summaries = kernels(own.rows)
    heat = heat_map(summaries, own.device, own.age)
    if heat is None:
        return []
    content: list[Content] = [element("div", {"class": "block"}, element("h3", None, own.device), heat)]
    points = ratio_points(summaries)
    if points:
        note = (
            f"Geometric mean over the sizes of a kernel, with its 95% interval across processes. {BASELINE} is the"
            " code of XLA itself. Left of 1 is faster."
        )
        content.append(figure("forest", f"Time relative to {BASELINE}, {own.device}", note, points, WIDE))
    return [*content, html_table(summary_table(own.rows))]


def _changes(own: Results) -> list[Content]:
    changes = comparisons(own)
    if not changes:
        return []
    base = max((record.run for record in own.earlier), key=lambda run: run.started)
    table = comparison_table(changes, base, own.run, interleaved=are_interleaved(base, own.run))
    return [html_table(table)]


def _by_label(rows: Sequence[CellRow]) -> dict[tuple[str, str], list[CellRow]]:
    """Returns timed cells by dtype and name of the kernel."""
    by_label: dict[tuple[str, str], list[CellRow]] = {}
    for name, row in zip(group_names([row.cell for row in rows]), rows, strict=True):
        if row.timing:
            by_label.setdefault((short_dtype(row.cell.dtype), " \N{MIDDLE DOT} ".join(name.split("  "))), []).append(
                row
            )
    return dict(sorted(by_label.items()))


def _times(own: Results) -> list[Content]:
    """Draws the kernels that were timed at several sizes, and lists the times of all cells, a table for each run."""
    figures = [
        figure("times", f"{label}, {dtype}", "", time_points(rows), NARROW)
        for (dtype, label), rows in _by_label(own.rows).items() if len({row.cell.size for row in rows}) > 1
    ][:MOST]  # fmt: skip
    content: list[Content] = []
    if figures:
        note = (
            f"{own.device}: median time of a call over processes; the band goes from the fastest to the slowest"
            " process. Both axes are logarithmic."
        )
        names = [row.cell.backend for row in own.rows]
        content = [element("p", {"class": "lead"}, note), key(names), element("div", {"class": "chart-grid"}, figures)]
    return [*content, *(html_table(cell_table(rows)) for rows in by_run_and_platform(own.rows))]


def _roofs(own: Results) -> list[Content]:
    points = roof_points(own.rows)
    note = (
        "A point for each cell: operations a second against operations for each byte that a call must move, as the"
        " operator declares them. A dashed line is a ceiling that this run measured. Cells without a ceiling are left"
        " out."
    )
    return [figure("roofs", own.device, note, points, WIDE)] if points else []


def _history(own: Results) -> list[Content]:
    """Draws the times of the cells of many runs by commit, as plain lines."""
    charts: list[tuple[str, list[dict[str, object]]]] = []
    for (dtype, label), rows in _by_label(own.history).items():
        for size, cells in groupby(sorted(rows, key=lambda row: row.cell.size), key=lambda row: row.cell.size):
            own_cells = list(cells)
            if len({row.run.run_id for row in own_cells}) >= FEWEST:
                title = f"{label}, {dtype}, {count_text(size)} elements, {own.device}"
                charts.append((title, time_points(own_cells)))
    if not charts:
        return []
    figures = [figure("history", title, "", points, NARROW) for title, points in charts[:MOST]]
    left = f"; {len(charts) - MOST:,} more are not drawn" if len(charts) > MOST else ""
    note = f"A line for each backend, over the runs of one device{left}."
    grid = element("div", {"class": "chart-grid"}, figures)
    return [each for each in (element("p", {"class": "lead"}, note), lasting_list(own.history), grid) if each]


def _runs(choice: Choice) -> list[Content]:
    content: list[Content] = []
    for own in choice.shown:
        for run in own.runs:
            rows = [row for row in own.rows if row.run.run_id == run.run_id]
            items = []
            for note in [f"cells: {count_text(len(rows))} newest results", *run_notes(rows)]:
                name, _, value = note.partition(": ")
                items += [element("dt", None, name), element("dd", None, value)]
            content.append(element("div", {"class": "block"}, element("h3", None, f"{run.run_id}, {run.profile}"),
                                 element("dl", {"class": "facts"}, items)))  # fmt: skip
    value = "kernel-bridge show RUN has more columns, --details, and --format json everything that was recorded."
    return [*content, element("p", {"class": "faint"}, value)]
