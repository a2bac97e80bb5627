"""Draws the history of cells over the runs of one machine: first those whose level changed."""

from __future__ import annotations

from collections.abc import Sequence

from reports.history.histories import histories
from reports.history.history_table import history_tables
from reports.history.series import Series
from reports.records.run_file import RunFile
from reports.render.units import interval_text, ratio_text, time_range_text, time_text
from reports.render.visible import visible
from reports.web.chart_data import Point, short_number
from reports.web.chart_figures import ChartRows
from reports.web.html_tables import html_table
from reports.web.markup import Content, Markup, element

FEWEST = 3
"""Runs of a cell from which on its history is drawn."""

MOST = 120
"""Series without a change that are drawn at most."""

_COLUMNS = {"run_id": "run", "commit": "commit", "value_text": "value", "range_text": "range", "change_text": "change"}


def history_content(runs: Sequence[RunFile], charts: ChartRows) -> list[Content]:
    """Returns the tables of changes and the charts; nothing if no cell was timed in `FEWEST` runs of one machine.

    Args:
        runs: All runs of the page.
        charts: Takes the rows of the charts.
    """
    found = [one for one in histories(runs) if len(one.points) >= FEWEST]
    if not found:
        return []
    changed = [one for one in found if one.changes]
    calm = [one for one in found if not one.changes]
    said = (
        "The time of a cell over the runs of one machine, divided by the time of jnp in the same run where that exists."
        " A dashed line is the first run after a change."
    )
    content: list[Content] = [element("p", {"class": "lead"}, said)]
    content += [html_table(table, closed=False) for table in history_tables(found)]
    if changed:
        content.append(element("h3", None, "Cells that changed"))
        content.append(element("div", {"class": "chart-grid"}, [_figure(one, charts) for one in changed]))
    if calm:
        left_out = f"; {len(calm) - MOST:,} more are in the table of cells" if len(calm) > MOST else ""
        summary = element("summary", None, element("h3", None, "Cells without a change"),
                          element("span", {"class": "count"}, f"{len(calm):,}{left_out}"))  # fmt: skip
        grid = element("div", {"class": "chart-grid"}, [_figure(one, charts) for one in calm[:MOST]])
        content.append(element("details", {"class": "fold", "open": not changed and len(calm) <= 12}, summary, grid))
    return content


def _figure(series: Series, charts: ChartRows) -> Markup:
    sizes = ", ".join(f"{ratio_text(change.size.value)} times since {change.after.run_id}" for change in series.changes)
    return charts.figure(f"history-{series.quantity}", series.cell.id, sizes or "no change", _points(series), _COLUMNS)


def _points(series: Series) -> list[Point]:
    changes = {change.index: change for change in series.changes}
    levels = {place: (number, level.median) for number, level in enumerate(series.levels)
              for place in range(level.first, level.last + 1)}  # fmt: skip
    unit = 1.0 if series.quantity == "ratio" else 1e-9
    rows = []
    for place, (point, value) in enumerate(zip(series.points, series.values, strict=True)):
        if value is None:
            continue
        if series.quantity == "ratio":
            low, high = (point.ratio.low, point.ratio.high) if point.ratio else (None, None)
            text, span = ratio_text(value), interval_text(low, high)
        else:
            low, high, text = point.low_ns, point.high_ns, time_text(value)
            span = time_range_text(low, high, value)
        segment, level = levels.get(place, (0, value))
        change = changes.get(place)
        rows.append(
            {
                "run": str(place + 1), "run_id": visible(point.run_id),
                "commit": visible((point.commit or "unknown")[:10] + ("+" if point.is_dirty else "")),
                "value": short_number(value * unit), "low": short_number(low and low * unit),
                "high": short_number(high and high * unit), "level": short_number(level * unit), "segment": segment,
                "is_change": change is not None, "value_text": text, "range_text": span,
                "change_text": "" if change is None else f"{ratio_text(change.size.value)} times",
                "said": visible(f"{point.run_id}: {text}"),
            }
        )  # fmt: skip
    return rows
