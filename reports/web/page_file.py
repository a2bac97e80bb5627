"""Writes the page: one HTML file that loads nothing, with its style inside and no script."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from importlib import resources
from pathlib import Path

from reports.pages.run_notes import platform_name
from reports.records.record import Record
from reports.records.run_file import RunFile
from reports.web.chart_theme import dark_colors
from reports.web.markup import Markup, element, joined
from reports.web.page_sections import PageSection, page_sections
from reports.web.run_choice import Choice, choose

STYLES = ("tokens", "frame", "text", "summary", "tables", "heat", "charts", "print")
"""The style sheets, in their order."""


def page_text(runs: Sequence[tuple[RunFile, Sequence[Record]]]) -> str:
    """Returns the page of some runs as the text of an HTML file.

    Args:
        runs: The runs, each with the records that the page shows, at least one.

    Raises:
        LibraryMissing: The plotting library is not installed, and there is something to draw.
    """
    choice = choose(runs)
    sections = page_sections(choice)
    style = "\n".join([*(_asset(f"{name}.css") for name in STYLES), dark_colors()])
    head = element(
        "head", None,
        element("meta", {"charset": "utf-8"}),
        element("meta", {"http-equiv": "Content-Security-Policy", "content": _policy(style)}),
        element("meta", {"name": "viewport", "content": "width=device-width, initial-scale=1"}),
        element("meta", {"name": "color-scheme", "content": "light dark"}),
        element("meta", {"name": "referrer", "content": "no-referrer"}),
        element("title", None, f"{_title(choice)}, kernel-bridge"),
        Markup(f"<style>{style}</style>"),
    )  # fmt: skip
    body = element("body", None, _body(choice, sections))
    return f"<!doctype html>\n{element('html', {'lang': 'en'}, head, body)}\n"


def _body(choice: Choice, sections: Sequence[PageSection]) -> Markup:
    skip = element("a", {"class": "skip", "href": "#main"}, "Skip to the content")
    menu = element("nav", {"class": "menu", "aria-label": "Sections"}, element("ul", None, [
        element("li", None, element("a", {"href": f"#{one.identity}"}, one.short)) for one in sections
    ]))  # fmt: skip
    name = element("div", {"class": "name"}, element("h1", None, _title(choice)),
                   element("p", {"class": "faint"}, _heading(choice)))  # fmt: skip
    header = element("header", {"class": "top"}, name)
    doubts = None
    if choice.doubts:
        doubts = element("div", {"class": "doubt", "role": "note"},
                         element("h2", None, "These runs are no proof"),
                         element("ul", None, [element("li", None, doubt) for doubt in choice.doubts]))  # fmt: skip
    main = element("main", {"id": "main", "tabindex": -1}, doubts, [one.markup for one in sections])
    footer = element("footer", None, element("p", {"class": "faint"},
                     "Written by kernel-bridge report. Charts: drawn by Vega-Lite."))  # fmt: skip
    return joined(skip, header, menu, main, footer)


def _title(choice: Choice) -> str:
    """Returns the project, commit and day of the newest run."""
    run = max((own.run for own in choice.shown), key=lambda run: run.started)
    files = [Path(name).stem for name in (run.selection or {}).get("source", [])]
    commit = run.source.commit and f" {run.source.commit[:7]}{'+' if run.source.dirty else ''}"
    return f"{run.source.project or ', '.join(files) or 'kernel-bridge'}{commit or ''}, {run.started[:10]}"


def _heading(choice: Choice) -> str:
    devices = list(dict.fromkeys(platform_name(run.run) for run in choice.shown))
    last = max(run.run.started for run in choice.shown)
    return f"{', '.join(devices)}; last run {last[:16].replace('T', ' ')} UTC"


def _asset(name: str) -> str:
    return resources.files("reports.web").joinpath("assets", name).read_text(encoding="utf-8")


def _policy(style: str) -> str:
    """Returns the content-security policy: the page loads and runs nothing, and only this style is allowed."""
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    return f"default-src 'none'; style-src 'sha256-{digest}'; img-src data:; base-uri 'none'; form-action 'none'"
