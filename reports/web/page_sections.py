"""Makes the sections of the page in their order; one without data is absent."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from reports.history.series import Series
from reports.pages.alike import are_interleaved
from reports.pages.call_costs import call_cost_tables
from reports.pages.compare_table import comparison_table
from reports.pages.endurance_table import endurance_tables
from reports.pages.kills import kill_tables
from reports.pages.peer_table import peer_tables
from reports.pages.repeatability import repeatability_notes
from reports.pages.rows import BASELINE
from reports.pages.run_notes import run_notes
from reports.pages.summary import summary_table
from reports.pages.verdicts import validation_tables
from reports.render.units import count_text
from reports.web.chart_data import call_points, ratio_points, roof_points
from reports.web.chart_figures import ChartRows
from reports.web.headlines import comparisons, failures, first_places, slower, tile_list, tiles
from reports.web.history_section import drawn_series, history_content, history_tile
from reports.web.html_tables import html_table
from reports.web.kernel_grid import heat_maps, kernels
from reports.web.markup import Content, Markup, element, joined
from reports.web.run_choice import KINDS, RunChoice, RunKind

MutantFacts = Callable[[str], tuple[Mapping[str, str], Mapping[str, str]]]
"""Returns, for a platform, the purpose of each check in order, and the fault of each broken kernel."""


_CHECK = "check"
"""The group of the columns of a kill matrix that stand for checks."""


@dataclass(frozen=True, slots=True)
class PageSection:
    """One section: its id, the word in the menu, its heading, and what is in it."""

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


def page_sections(choice: RunChoice, charts: ChartRows, mutant_facts: MutantFacts) -> list[PageSection]:
    """Returns the sections that have something to show.

    Args:
        choice: The runs.
        charts: Takes the rows of the charts.
        mutant_facts: Describes checks and broken kernels.
    """
    series = drawn_series(choice.files)
    made: list[tuple[str, str, str, Sequence[Content]]] = [
        ("summary", "Summary", "Summary", _summary(choice, series)),
        ("verdicts", "Verdicts", "Verdicts of the checks", _verdicts(choice)),
        ("changes", "Changes", "What has changed since the run before", _changes(choice)),
        ("times", "Times", "Time against size", _times(choice)),
        ("roofs", "Roofline", "Roofline", _roofs(choice, charts)),
        ("ratios", "Backends", "Operators and backends", _ratios(choice, charts)),
        ("libraries", "Libraries", "Fastest kernels beside other libraries", _libraries(choice)),
        ("calls", "Calls", "What a call costs", _calls(choice, charts)),
        ("endurance", "Endurance", "Long runs, many kernels and threads", _endurance(choice)),
        ("mutants", "Mutants", "Broken kernels: which check caught which", _mutants(choice, mutant_facts)),
        ("history", "History", "History", history_content(series, charts)),
        ("cells", "Cells", "Table of cells", _cells(choice)),
        ("runs", "Runs", "Runs and machines", _runs(choice)),
    ]
    return [PageSection(name, short, title, joined(content)) for name, short, title, content in made if content]


def _summary(choice: RunChoice, series: Sequence[Series]) -> list[Content]:
    made = [*tiles(choice), *filter(None, [history_tile(series)])]
    found: list[Content] = [tile_list(made), failures(choice)]
    for run in choice.of_kind(RunKind.TIMES):
        found.append(slower(run))
    fastest = [one for run in choice.of_kind(RunKind.TIMES) if (one := first_places(run))]
    found.append(element("div", {"id": "fastest"}, fastest) if fastest else None)
    found += [html_table(summary_table(run.own_rows)) for run in choice.of_kind(RunKind.TIMES) if run.own_rows]
    return found


def _verdicts(choice: RunChoice) -> list[Content]:
    return [
        html_table(table, closed=False, css="verdicts")
        for run in choice.of_kind(RunKind.CHECKS)
        for table in validation_tables(run.records)
    ]


def _changes(choice: RunChoice) -> list[Content]:
    found: list[Content] = []
    for run in choice.of_kind(RunKind.TIMES):
        compared = comparisons(run)
        if not compared:
            continue
        before = run.before_records
        interleaved = are_interleaved(before[-1].run, run.run)
        notes = [] if interleaved else repeatability_notes(list(before), run.records)
        table = comparison_table(compared, before[-1].run, run.run, interleaved=interleaved, notes=notes)
        found.append(html_table(table))
    return found


def _times(choice: RunChoice) -> list[Content]:
    if not any(row.timing for run in choice.of_kind(RunKind.TIMES) for row in run.rows):
        return []
    said = (
        "Median time of a call over processes; the band goes from the fastest to the slowest process. Both axes are"
        " logarithmic. One chart for each operator."
    )
    return [element("p", {"class": "lead"}, said), element("div", {"id": "time-controls", "class": "controls"}),
            element("div", {"id": "time-key", "class": "series-key"}),
            element("div", {"id": "time-charts", "class": "chart-grid"}, _needs_script())]  # fmt: skip


def _roofs(choice: RunChoice, charts: ChartRows) -> list[Content]:
    found: list[Content] = []
    columns = {"label": "operator", "backend": "backend", "size_text": "elements", "time_text": "time",
               "share_text": "share of the roof", "roof": "roof"}  # fmt: skip
    for run in choice.of_kind(RunKind.TIMES):
        points = roof_points(run.own_rows)
        if points:
            said = (
                "A point for each cell: operations a second against operations for each byte that a call must move, as"
                " the operator declares them. A dashed line is a bandwidth that this run measured."
            )
            found.append(charts.figure("roofs", run.device, said, points, columns))
    return found


def _ratios(choice: RunChoice, charts: ChartRows) -> list[Content]:
    found: list[Content] = []
    columns = {"label": "kernel", "backend": "backend", "ratio_text": f"time / {BASELINE}",
               "interval_text": "95% interval", "cells": "cells"}  # fmt: skip
    kinds = (RunKind.TIMES, RunKind.CHECKS)
    for number, run in enumerate(one for kind in kinds for one in choice.of_kind(kind)):
        summaries = kernels(run.own_rows)
        content = heat_maps(summaries, run.device, KINDS[run.kind], f"map{number}")
        if content is None:
            continue
        what = f", {run.run.profile}" if run.kind is RunKind.CHECKS else ""
        found.append(element("div", {"class": "block"}, element("h3", None, f"{run.device}{what}"), content))
        points = ratio_points(summaries)
        if points:
            said = (
                f"Geometric mean over the sizes of a kernel, with its 95% interval across processes. {BASELINE} is the"
                " code of XLA itself. Left of 1 is faster."
            )
            found.append(charts.figure("ratios", f"Time relative to {BASELINE}, {run.device}", said, points, columns))
    return found


def _libraries(choice: RunChoice) -> list[Content]:
    return [html_table(table) for run in choice.of_kind(RunKind.TIMES) for table in peer_tables(run.rows)]


def _calls(choice: RunChoice, charts: ChartRows) -> list[Content]:
    found: list[Content] = []
    columns = {"label": "way", "time_text": "time", "range_text": "20th to 80th percentile",
               "ratio_text": "divided by"}  # fmt: skip
    for run in choice.of_kind(RunKind.CALLS):
        figures = [
            charts.figure("calls", title, "Median, 20th and 80th percentile; blue: kernel-bridge.", points, columns)
            for title, points in call_points(run.rows).items()
        ]
        tables = [html_table(table) for table in call_cost_tables(run.records)]
        found.append(element("h3", None, run.device))
        found.append(element("div", {"class": "chart-grid wide"}, figures))
        found += tables
    return found


def _endurance(choice: RunChoice) -> list[Content]:
    tables = [table for run in choice.of_kind(RunKind.ENDURANCE) for table in endurance_tables(run.records)]
    return [html_table(table) for table in tables]


def _mutants(choice: RunChoice, mutant_facts: MutantFacts) -> list[Content]:
    found: list[Content] = []
    for run in choice.of_kind(RunKind.MUTANTS):
        purposes, faults = mutant_facts(run.run.device.platform)
        ran = list(dict.fromkeys(row.cell.mode for row in run.rows))
        checks = {name: purposes.get(name, "") for name in [*(one for one in purposes if one in ran), *ran]}
        matrix, by_check = kill_tables(run.records, checks, faults)
        # Names stand upright above their columns, where a terminal has numbers.
        named = dict(zip(map(str, range(1, len(checks) + 1)), checks, strict=True))
        columns = tuple(
            replace(column, header=named[column.header]) if column.group == _CHECK else column
            for column in matrix.columns
        )
        found.append(html_table(replace(matrix, columns=columns), closed=False, css="matrix", marks=_CHECK))
        found.append(html_table(by_check))
    return found


def _cells(choice: RunChoice) -> list[Content]:
    count = sum(len(run.rows) for run in choice.shown)
    said = f"{count_text(count)} cells. Open a cell for its samples, its environment and the command that repeats it."
    title = "Table of cells"
    filters = {"id": "filters", "class": "filters", "role": "search", "aria-label": f"Filters of the {title.lower()}"}
    table = element(
        "table", {"id": "cell-table", "class": "cells"},
        element("caption", {"class": "unseen"}, "Cells; a button in a header sorts by it"),
        element("thead"), element("tbody"),
    )  # fmt: skip
    return [
        element("p", {"class": "lead"}, said),
        element("form", filters),
        element("p", {"id": "found", "class": "found", "role": "status", "aria-live": "polite"}),
        element("div", {"class": "scroll", "tabindex": 0, "role": "region", "aria-label": title}, table),
        element("nav", {"id": "pager", "class": "pager", "aria-label": "Pages of the table"}),
        _needs_script(),
    ]


def _runs(choice: RunChoice) -> list[Content]:
    found: list[Content] = []
    for run in choice.shown:
        items = []
        for note in run_notes(run.rows):
            name, _, said = note.partition(": ")
            items += [element("dt", None, name), element("dd", None, said)]
        found.append(element("div", {"class": "block"}, element("h3", None, f"{run.run.run_id}, {run.run.profile}"),
                             element("dl", {"class": "facts"}, items)))  # fmt: skip
    if choice.older:
        said = f"Older runs of the same machines, used for what has changed: {', '.join(choice.older)}."
        found.append(element("p", {"class": "faint"}, said))
    return found


def _needs_script() -> Markup:
    return element("noscript", None, element("p", {"class": "faint"}, "This part needs JavaScript."))


def draws_charts(sections: Sequence[PageSection], charts: ChartRows) -> bool:
    """Returns whether the page draws any chart: of collected rows, or of the times of cells."""
    return bool(charts.rows) or any(one.identity == "times" for one in sections)
