"""Makes the sections of the page in their order; a section without data is left out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from reports.pages.alike import are_interleaved
from reports.pages.compare_table import comparison_table
from reports.pages.fastest_table import fastest_table
from reports.pages.groups import group_names
from reports.pages.rows import BASELINE, CellRow, by_run_and_platform
from reports.pages.run_cells import cell_table
from reports.pages.run_notes import run_notes
from reports.pages.summary import summary_table
from reports.pages.verdicts import verdict_tables
from reports.records.cell import short_dtype
from reports.render.units import count_text
from reports.render.visible import visible
from reports.web.chart_theme import Mark, marks_of
from reports.web.charts import figure, key, ratio_points, roof_points, time_points
from reports.web.headlines import comparisons, failures, tile_list
from reports.web.html_tables import TURNED, html_table
from reports.web.kernel_grid import FASTEST, heat_map, kernels
from reports.web.lasting import lasting_list
from reports.web.markup import Content, Markup, element, joined
from reports.web.run_choice import Choice, Results, RunKind

FEWEST = 3
"""The least number of results of a cell for a chart of its history."""

MOST = 40
"""Most charts of a kind; a table has the numbers of all."""

MOST_CHANGES = 100
"""A table of more changes is closed until its reader opens it."""

NARROW, WIDE = 340, 880
"""Widths of charts in pixels: on a phone or beside others, and on the whole width of a page."""

Marks = Mapping[str, Mark]


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
    marks = marks_of(visible(row.cell.backend) for own in timed for row in own.history)
    beating = fastest_table({own.device: own.rows for own in timed})
    fastest = [
        *([html_table(beating)] if beating.rows else []),
        *_beside([_fastest(own, marks, len(timed)) for own in timed]),
    ]
    sections: list[tuple[str, str, str, Sequence[Content]]] = [
        ("summary", "Summary", "Is everything right?", [tile_list(choice), failures(choice)]),
        ("fastest", "Fastest", "Which backend is fastest?", fastest),
        ("changes", "Changes", "What has changed?", [each for own in choice.shown for each in _changes(own)]),
        ("verdicts", "Verdicts", "Verdicts of the checks", [
            html_table(table, closed=False, css="grid")
            for own in choice.of_kind(RunKind.CHECKS) for table in verdict_tables(own.rows)
        ]),
        ("times", "Times", "Time against size", [each for own in timed for each in _times(own, marks)]),
        ("roofs", "Roofline", "Roofline", _beside([_roofs(own, marks, len(timed)) for own in timed])),
        ("history", "History", "Times by commit", [each for own in timed for each in _history(own, marks)]),
        ("runs", "Runs", "Runs and machines", _runs(choice)),
    ]  # fmt: skip
    return [PageSection(name, short, title, joined(content)) for name, short, title, content in sections if content]


def _beside(devices: Sequence[Sequence[Content]]) -> list[Content]:
    """Returns the contents of several devices side by side, as far as they have room."""
    found = [element("div", {"class": "block"}, content) for content in devices if content]
    return [element("div", {"class": "devices"}, found)] if len(found) > 1 else [*found]


def _widths(devices: int) -> tuple[int, int]:
    """Returns the widths of a chart that stands alone, or beside that of another device."""
    return (WIDE, NARROW) if devices == 1 else (WIDE // 2, NARROW)


def _fastest(own: Results, marks: Marks, devices: int) -> list[Content]:
    summaries = kernels(own.rows)
    heat = heat_map(summaries, own.device, own.age)
    if not heat:
        return []
    content: list[Content] = [element("h3", None, own.device), *heat]
    points = ratio_points(summaries)
    if points:
        over = " or ".join(sorted({point["over"] for point in points}))
        note = "Geometric mean over the sizes of a kernel, with its 95% interval across processes. "
        note += "" if over == FASTEST else f"{BASELINE} is the code of XLA itself. Left of 1 is faster."
        # A table with turned names has the whole width.
        widths = _widths(devices if len({kernel.backend for kernel in summaries}) < TURNED else 1)
        content.append(figure("forest", f"Time relative to {over}, {own.device}", note, points, marks, *widths))
    return [*content, html_table(summary_table(own.rows))]


def _changes(own: Results) -> list[Content]:
    changes = comparisons(own)
    if not changes:
        return []
    # Where all cells are new, the run before has none of them.
    bases = [record.run for record in (*own.earlier, *own.removed)] or [row.run for row in own.history]
    base = max((run for run in bases if run.started < own.run.started), key=lambda run: run.started, default=own.run)
    table = comparison_table(changes, base, own.run, interleaved=are_interleaved(base, own.run))
    return [html_table(table, closed=len(table.rows) > MOST_CHANGES)]


def _by_label(rows: Sequence[CellRow]) -> dict[tuple[str, str], list[CellRow]]:
    """Returns timed cells by dtype and name of the kernel."""
    by_label: dict[tuple[str, str], list[CellRow]] = {}
    for name, row in zip(group_names([row.cell for row in rows]), rows, strict=True):
        if row.timing:
            key = short_dtype(row.cell.dtype), " \N{MIDDLE DOT} ".join(name.split("  "))
            by_label.setdefault(key, []).append(row)
    return dict(sorted(by_label.items()))


def _times(own: Results, marks: Marks) -> list[Content]:
    """Draws the kernels that were timed at several sizes, and lists the times of all cells, a table for each run."""
    figures = [
        figure("times", f"{label}, {dtype}", "", time_points(rows), marks, NARROW, keyed=False)
        for (dtype, label), rows in _by_label(own.rows).items() if len({row.cell.size for row in rows}) > 1
    ][:MOST]  # fmt: skip
    content: list[Content] = []
    if figures:
        note = (
            f"{own.device}: median time of a call over processes; the band goes from the fastest to the slowest"
            " process. Both axes are logarithmic."
        )
        names = [visible(row.cell.backend) for row in own.rows if row.timing]
        content = [
            element("p", {"class": "lead"}, note),
            key(names, marks),
            element("div", {"class": "chart-grid"}, figures),
        ]
    return [*content, *(html_table(cell_table(rows)) for rows in by_run_and_platform(own.rows))]


def _roofs(own: Results, marks: Marks, devices: int) -> list[Content]:
    points = roof_points(own.rows)
    note = (
        "A point for each kernel at its largest size: operations a second against operations for each byte that a call"
        " must move, as the operator declares them. The name of an operator stands at its fastest kernel. A dashed line"
        " is a ceiling that this run measured. Cells without a ceiling are left out."
    )
    return [figure("roofs", own.device, note, points, marks, *_widths(devices))] if points else []


def _history(own: Results, marks: Marks) -> list[Content]:
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
    figures = [figure("history", title, "", points, marks, NARROW) for title, points in charts[:MOST]]
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
