"""Holds the colours and shapes of charts, on a light and on a dark page, for readers of every colour vision."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from reports.pages.rows import BASELINE

INKS = {
    "page": ("#ffffff", "#0d1117"),
    "ink": ("#1f2328", "#f0f6fc"),
    "quiet": ("#59636e", "#9198a1"),
    "line": ("#d8dee4", "#30363d"),
    "accent": ("#0b63ce", "#6cb2ff"),
    "bad": ("#b42318", "#ff8f85"),
}
"""Colours by name, each on a light and on a dark page."""

BASELINE_COLOR = ("#6e7781", "#a0a8b0")

SERIES = (
    ("#0072b2", "#56a8e8"),
    ("#c4500a", "#f58b45"),
    ("#00815e", "#2fc79a"),
    ("#a8457f", "#e391c0"),
    ("#8a6d00", "#e2b93b"),
    ("#5b4fc7", "#a79ff5"),
    ("#3d6b74", "#8fc1cb"),
    ("#8c2d2d", "#d98a8a"),
    ("#4c7a00", "#a5cc52"),
    ("#7a3e9d", "#cf9bea"),
)
"""The colours of backends, after the palette of Okabe and Ito; darker, so that they keep 4.5 to 1 on white."""

SHAPES = ("circle", "square", "triangle-up", "diamond", "triangle-down", "cross", "triangle-right", "triangle-left")

BASELINE_SHAPE = "M-1,-0.28H1V0.28H-1Z"
"""A short bar, as a path in a square from -1 to 1."""

FONT = 'system-ui, "Segoe UI", Roboto, Helvetica, Arial, sans-serif'


def series_scale(backends: Iterable[str]) -> dict[str, Any]:
    """Returns, by backend, its place in `SERIES` and `SHAPES`; the baseline has a colour of its own, the place -1."""
    others = sorted({name for name in backends if name != BASELINE})
    return {BASELINE: -1} | {name: place % len(SERIES) for place, name in enumerate(others)}


def series_colors(places: dict[str, Any], *, dark: bool) -> list[str]:
    """Returns the colours of the backends of `series_scale`, in its order."""
    return [(BASELINE_COLOR if place < 0 else SERIES[place])[dark] for place in places.values()]


def series_shapes(places: dict[str, Any]) -> list[str]:
    """Returns the shapes of the backends of `series_scale`, in its order."""
    return [BASELINE_SHAPE if place < 0 else SHAPES[place % len(SHAPES)] for place in places.values()]


def chart_config(*, dark: bool) -> dict[str, Any]:
    """Returns the look of all charts as a configuration of Vega-Lite."""
    ink = {name: shades[dark] for name, shades in INKS.items()}
    return {
        "background": None,
        "font": FONT,
        "padding": 4,
        "view": {"stroke": None},
        "axis": {
            "labelColor": ink["quiet"], "titleColor": ink["quiet"], "gridColor": ink["line"],
            "domainColor": ink["line"], "tickColor": ink["line"], "labelFontSize": 11, "titleFontSize": 11,
            "titleFontWeight": "normal", "titlePadding": 8, "labelPadding": 4, "tickSize": 4,
        },
        "legend": {
            "labelColor": ink["ink"], "titleColor": ink["quiet"], "labelFontSize": 12, "titleFontSize": 11,
            "titleFontWeight": "normal", "symbolSize": 70, "orient": "top", "labelLimit": 220, "columnPadding": 14,
        },
        "title": {
            "color": ink["ink"], "subtitleColor": ink["quiet"], "fontSize": 14, "subtitleFontSize": 12,
            "anchor": "start", "fontWeight": 600, "offset": 10, "subtitlePadding": 4,
        },
        "header": {"labelColor": ink["ink"], "labelFontSize": 12, "labelFontWeight": 600, "title": None},
        "text": {"color": ink["ink"]},
        "rule": {"color": ink["quiet"]},
    }  # fmt: skip
