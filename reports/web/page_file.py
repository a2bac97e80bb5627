"""Writes the page: one HTML file that loads nothing, with its style, its scripts and its data inside."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Mapping, Sequence
from importlib.resources import files

from reports.pages.rows import backends_of
from reports.records.record import Record
from reports.records.run_file import RunFile
from reports.web.cell_data import packed_cells, packed_details
from reports.web.chart_figures import ChartRows
from reports.web.chart_specs import chart_specs
from reports.web.chart_theme import INKS, chart_config, series_colors, series_scale, series_shapes
from reports.web.markup import Markup, data_block, element, joined
from reports.web.page_sections import MutantFacts, PageSection, draws_charts, page_sections
from reports.web.run_choice import RunChoice, choose
from reports.web.vega_bundle import NAME, vega_script

STYLES = ("tokens", "frame", "text", "summary", "tables", "heat", "charts", "filters", "dialog", "print")
"""The style sheets, in their order."""

SCRIPTS = ("elements", "data", "address", "theme", "drawing", "time_charts", "table", "filters", "dialog", "start")
"""The scripts, in their order: one scope, in which each uses what is before it."""


def page_text(
    runs: Sequence[tuple[RunFile, Sequence[Record]]], *, title: str = "kernel-bridge", mutant_facts: MutantFacts
) -> str:
    """Returns the page of some runs as the text of an HTML file.

    Args:
        runs: The runs, each with the records that the page shows, at least one.
        title: The title of the page.
        mutant_facts: Describes checks and broken kernels, see `reports.web.page_sections.MutantFacts`.

    Raises:
        LibraryMissing: The plotting library is not installed, and there is something to draw.
    """
    choice = choose(runs)
    charts = ChartRows()
    sections = page_sections(choice, charts, mutant_facts)
    places = series_scale(backends_of([row for run in choice.shown for row in run.rows]))
    draws = draws_charts(sections, charts)
    # The hash of the policy is of the whole text between the tags.
    library = vega_script() if draws else ""
    script = _script()
    style = "\n".join(_asset(f"{name}.css") for name in STYLES)
    blocks = [
        data_block("cell-data", packed_cells(choice.shown)),
        data_block("detail-data", packed_details(choice.shown)),
        data_block("chart-data", charts.rows),
        data_block(
            "chart-specs",
            {
                look: {"specs": chart_specs(places, dark=dark), "config": chart_config(dark=dark)}
                for look, dark in (("light", False), ("dark", True))
            },
        ),
        data_block("series-data", {
            "names": list(places), "shapes": series_shapes(places),
            "light": series_colors(places, dark=False), "dark": series_colors(places, dark=True),
            "page": INKS["page"], "library": NAME,
        }),
        # No browser runs a script of this type. The page runs its text when the first chart comes into view.
        Markup(f'<script type="text/plain" id="library">{library}</script>'),
    ]  # fmt: skip
    head = element(
        "head", None,
        element("meta", {"charset": "utf-8"}),
        element("meta", {"http-equiv": "Content-Security-Policy", "content": _policy(style, [script, library])}),
        element("meta", {"name": "viewport", "content": "width=device-width, initial-scale=1"}),
        element("meta", {"name": "color-scheme", "content": "light dark"}),
        element("meta", {"name": "referrer", "content": "no-referrer"}),
        element("title", None, f"{title}: {_heading(choice)}"),
        Markup(f"<style>{style}</style>"),
    )  # fmt: skip
    body = element("body", None, _body(choice, sections, title), blocks, Markup(f"<script>{script}</script>"))
    return f"<!doctype html>\n{element('html', {'lang': 'en'}, head, body)}\n"


def _body(choice: RunChoice, sections: Sequence[PageSection], title: str) -> Markup:
    skip = element("a", {"class": "skip", "href": "#at=main"}, "Skip to the content")
    menu = element("nav", {"class": "menu", "aria-label": "Sections"}, element("ul", None, [
        element("li", None, element("a", {"href": f"#at={one.identity}"}, one.short)) for one in sections
    ]))  # fmt: skip
    tools = element("div", {"class": "tools"},
                    element("button", {"type": "button", "id": "theme", "class": "tool"}, "Dark"),
                    element("button", {"type": "button", "id": "print", "class": "tool"}, "Print"))  # fmt: skip
    name = element("div", {"class": "name"}, element("h1", None, title),
                   element("p", {"class": "faint"}, _heading(choice)))  # fmt: skip
    header = element("header", {"class": "top"}, name, tools)
    doubts = None
    if choice.doubts:
        doubts = element("div", {"class": "doubt", "role": "note"},
                         element("h2", None, "These runs are no proof"),
                         element("ul", None, [element("li", None, doubt) for doubt in choice.doubts]))  # fmt: skip
    main = element("main", {"id": "main", "tabindex": -1}, doubts, [one.markup for one in sections])
    footer = element("footer", None, element("p", {"class": "faint"},
                     "Written by kernel-bridge report. Charts: Vega and Vega-Lite (BSD-3-Clause, University of"
                     " Washington Interactive Data Lab), inside this file."))  # fmt: skip
    return joined(skip, header, menu, main, footer, element("dialog", {"id": "cell", "aria-labelledby": "cell-title"}))


def _heading(choice: RunChoice) -> str:
    devices = list(dict.fromkeys(run.device for run in choice.shown))
    last = max(run.run.started for run in choice.shown)
    return f"{', '.join(devices)}; last run {last[:16].replace('T', ' ')} UTC"


def _script() -> str:
    parts = "\n".join(_asset(f"{name}.js") for name in SCRIPTS)
    return f'(() => {{\n"use strict";\n{parts}\n}})();'


def _asset(name: str) -> str:
    return files("reports.web").joinpath("assets", name).read_text(encoding="utf-8")


def _policy(style: str, scripts: Iterable[str]) -> str:
    """The content-security policy: nothing is loaded, and only these texts are style or run."""
    allowed: Mapping[str, str] = {
        "default-src": "'none'",
        "script-src": " ".join(_digest(script) for script in scripts if script),
        "style-src": _digest(style),
        "img-src": "data:",
        "base-uri": "'none'",
        "form-action": "'none'",
    }
    return "; ".join(f"{name} {value}" for name, value in allowed.items())


def _digest(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
