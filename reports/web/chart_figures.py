"""Collects the charts of the page: an empty figure for each, and its rows in one block of data."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from reports.web.chart_data import Point
from reports.web.markup import Markup, element


@dataclass(slots=True)
class ChartRows:
    """Collects the rows of the charts; the page holds them in one block.

    Attributes:
        rows: The rows, by the key that a figure names.
    """

    rows: dict[str, list[Point]] = field(default_factory=dict)

    def figure(self, chart: str, title: str, said: str, rows: list[Point], columns: Mapping[str, str]) -> Markup:
        """Returns a figure whose chart is drawn when it comes into view.

        Args:
            chart: The chart, see `reports.web.chart_specs`.
            title: Its heading.
            said: What it shows, in one or two sentences.
            rows: Its rows.
            columns: The fields of its rows that a table beside it shows, each with its header.
        """
        key = f"{chart}{len(self.rows)}"
        self.rows[key] = rows
        numbers = element("details", {"class": "numbers", "data-numbers": key}, element("summary", None, "Numbers"))
        return element(
            "figure", {"class": "chart", "data-chart": chart, "data-rows": key, "data-columns": json.dumps(columns)},
            element("figcaption", None, element("h4", None, title), element("p", {"class": "faint"}, said)),
            element("div", {"class": "series-key"}),
            element("div", {"class": "plot"}), numbers,
        )  # fmt: skip
