"""Describes the charts in Vega-Lite, for the page and for the pictures of the README; `chart_data` has their numbers.

Each description has one view. Its data is named `rows`, so that the page and a picture put their own rows into it.
"""

from __future__ import annotations

from typing import Any

from reports.web.chart_theme import INKS, series_colors, series_shapes

SCHEMA = "https://vega.github.io/schema/vega-lite/v6.json"
"""The version of Vega-Lite. It names a layout; nothing is loaded from there."""

Spec = dict[str, Any]

_SECONDS = "format(datum.value, '.3~s') + 's'"
_FACTOR = "format(datum.value, '~g') + '\N{MULTIPLICATION SIGN}'"
_ELEMENTS = (
    "datum.value % 1048576 == 0 ? format(datum.value / 1048576, ',') + 'Mi'"
    " : datum.value % 1024 == 0 ? format(datum.value / 1024, ',') + 'Ki' : format(datum.value, '.3~s')"
)


def chart_specs(places: dict[str, Any], *, dark: bool = False) -> dict[str, Spec]:
    """Returns the charts by name.

    Args:
        places: The backends, see `reports.web.chart_theme.series_scale`.
        dark: Whether they stand on a dark page.
    """
    made = {
        "times": _times(places, dark),
        "ratios": _ratios(places, dark),
        "roofs": _roofs(places, dark),
        "calls": _calls(dark),
        "samples": _samples(dark),
        "history-ratio": _history(dark, "time / jnp", _FACTOR),
        "history-time": _history(dark, "time per call", _SECONDS),
    }
    common = {"$schema": SCHEMA, "data": {"name": "rows"}, "autosize": {"type": "fit-x", "contains": "padding"}}
    return {name: {**common, **spec} for name, spec in made.items()}


def _log_axis(channel: str, label: str, **more: Any) -> Spec:
    """An axis of a log scale with labels and lines at powers of ten; over few decades also at 2 and 5 times these."""
    digit = "(datum.value / pow(10, floor(log(datum.value) / LN10 + 1e-9)))"
    span = f"(domain('{channel}')[1] / domain('{channel}')[0])"
    is_digit = {number: f"abs({digit} - {number}) < 1e-6" for number in (1, 2, 5)}
    shown = f"({is_digit[1]} || ({span} < 150 && ({is_digit[2]} || {is_digit[5]})) || {span} < 2.4)"
    only = {"condition": {"test": shown, "value": 1}, "value": 0}
    return {
        "labelExpr": f"{shown} ? {label} : ''", "gridOpacity": only, "tickOpacity": only, "labelOverlap": True,
        "tickCount": 30, **more,
    }  # fmt: skip


def _colors(places: dict[str, Any], dark: bool) -> Spec:
    return {"domain": list(places), "range": series_colors(places, dark=dark)}


def _shapes(places: dict[str, Any]) -> Spec:
    return {"domain": list(places), "range": series_shapes(places)}


def _backend(places: dict[str, Any], dark: bool, *, legend: bool) -> dict[str, Spec]:
    look = {"legend": {"title": None} if legend else None}
    return {
        "color": {"field": "backend", "type": "nominal", "scale": _colors(places, dark), **look},
        "shape": {"field": "backend", "type": "nominal", "scale": _shapes(places), **look},
    }


def _tips(*fields: tuple[str, str]) -> list[Spec]:
    return [{"field": field, "title": title, "type": "nominal"} for field, title in fields]


def _times(places: dict[str, Any], dark: bool) -> Spec:
    """Time against size: a line for each backend, and a band from the least to the greatest median of a process."""
    size = {
        "field": "size", "type": "quantitative", "title": "elements",
        "scale": {"type": "log", "base": 2, "nice": False, "padding": 14},
        "axis": {"labelExpr": _ELEMENTS, "grid": False, "tickCount": 5, "labelOverlap": True},
    }  # fmt: skip
    time = {
        "type": "quantitative", "title": "time per call",
        "scale": {"type": "log", "nice": False, "padding": 10},
        "axis": _log_axis("y", _SECONDS),
    }  # fmt: skip
    color = {"field": "backend", "type": "nominal", "scale": _colors(places, dark), "legend": None}
    tips = _tips(("backend", "backend"), ("size_text", "elements"), ("time_text", "time"), ("range_text", "processes"),
                 ("ratio_text", "time / jnp"))  # fmt: skip
    return {
        "height": 190,
        "encoding": {"x": size, "tooltip": tips},
        "layer": [
            {
                "mark": {"type": "area", "opacity": 0.18, "aria": False},
                "encoding": {
                    "y": {"field": "low_s", **time}, "y2": {"field": "high_s"},
                    "color": {**color}, "tooltip": None,
                },
            },
            {
                "mark": {"type": "line", "strokeWidth": 1.75, "aria": False},
                "encoding": {"y": {"field": "time_s", **time}, "color": color, "tooltip": None},
            },
            {
                "mark": {"type": "rule", "strokeWidth": 1.25, "aria": False},
                "encoding": {"y": {"field": "low_s", **time}, "y2": {"field": "high_s"}, "color": color},
            },
            {
                "mark": {"type": "point", "filled": True, "size": 55, "opacity": 1},
                "encoding": {"y": {"field": "time_s", **time}, **_backend(places, dark, legend=False),
                             "description": {"field": "said"}},
            },
        ],
    }  # fmt: skip


def _ratios(places: dict[str, Any], dark: bool) -> Spec:
    """Time divided by the time of the baseline: a row for each operator, a point with its interval for each backend."""
    ratio = {
        "type": "quantitative", "title": "time / jnp (log scale)",
        "scale": {"type": "log", "nice": False, "padding": 12},
        "axis": _log_axis("x", _FACTOR, orient="top"),
    }  # fmt: skip
    row = {
        "field": "label", "type": "nominal", "title": None, "sort": None,
        "axis": {"grid": True, "ticks": False, "domain": False, "labelFontSize": 12, "labelColor": INKS["ink"][dark],
                 "labelLimit": 190},
    }  # fmt: skip
    tips = _tips(("label", "kernel"), ("backend", "backend"), ("cells", "cells"), ("ratio_text", "time / jnp"),
                 ("interval_text", "95% interval"))  # fmt: skip
    color = _backend(places, dark, legend=True)["color"]
    rule = {"color": INKS["ink"][dark], "strokeWidth": 1, "strokeDash": [4, 3], "aria": False}
    return {
        "height": {"step": 24},
        "layer": [
            {
                "data": {"values": [{"one": 1}]}, "mark": {"type": "rule", **rule},
                "encoding": {"x": {"field": "one", "type": "quantitative"}},
            },
            {
                "mark": {"type": "rule", "strokeWidth": 1.5, "opacity": 0.75, "aria": False},
                "encoding": {
                    "x": {"field": "low", **ratio}, "x2": {"field": "high"}, "y": row,
                    "color": color, "tooltip": tips,
                },
            },
            {
                "mark": {"type": "point", "filled": True, "size": 70, "opacity": 1},
                "encoding": {
                    "x": {"field": "ratio", **ratio}, "y": row, **_backend(places, dark, legend=True),
                    "tooltip": tips, "description": {"field": "said"},
                },
            },
        ],
    }  # fmt: skip


def _roofs(places: dict[str, Any], dark: bool) -> Spec:
    """The roofline: operations per second against operations per byte, below the bandwidth that the run measured."""
    intensity = {
        "type": "quantitative", "title": "operations per byte (log scale)",
        "scale": {"type": "log", "nice": False, "padding": 14},
        "axis": _log_axis("x", "format(datum.value, '~g')", grid=False),
    }  # fmt: skip
    rate = {
        "type": "quantitative", "title": "operations per second (log scale)",
        "scale": {"type": "log", "nice": False, "padding": 12},
        "axis": _log_axis("y", "format(datum.value, '~s')"),
    }  # fmt: skip
    tips = _tips(("label", "kernel"), ("backend", "backend"), ("size_text", "elements"), ("time_text", "time"),
                 ("share_text", "share of the roof"), ("roof", "roof"))  # fmt: skip
    return {
        "height": 330,
        "layer": [
            {
                "transform": [{"filter": "datum.line && !datum.name"}],
                "mark": {"type": "line", "strokeWidth": 1.25, "strokeDash": [5, 4], "color": INKS["quiet"][dark],
                         "aria": False},
                "encoding": {"x": {"field": "intensity", **intensity}, "y": {"field": "rate", **rate},
                             "detail": {"field": "roof"}},
            },
            {
                "transform": [{"filter": "datum.name"}],
                "mark": {"type": "text", "align": "right", "dy": -6, "dx": -4, "fontSize": 11,
                         "color": INKS["ink"][dark], "aria": False},
                "encoding": {"x": {"field": "intensity", **intensity}, "y": {"field": "rate", **rate},
                             "text": {"field": "roof"}},
            },
            {
                "transform": [{"filter": "!datum.line"}],
                "mark": {"type": "point", "filled": True, "size": 50, "opacity": 0.85},
                "encoding": {"x": {"field": "intensity", **intensity}, "y": {"field": "rate", **rate},
                             **_backend(places, dark, legend=True), "tooltip": tips,
                             "description": {"field": "said"}},
            },
        ],
    }  # fmt: skip


def _calls(dark: bool) -> Spec:
    """What a call costs: a row for each way to call the kernel, a point with the 20th and 80th percentile."""
    cost = {
        "type": "quantitative", "title": "time per call (log scale)",
        "scale": {"type": "log", "nice": False, "padding": 44}, "axis": _log_axis("x", _SECONDS),
    }  # fmt: skip
    row = {
        "field": "label", "type": "nominal", "title": None, "sort": None,
        "axis": {"ticks": False, "domain": False, "labelFontSize": 12, "labelColor": INKS["ink"][dark],
                 "labelLimit": 250, "grid": True},
    }  # fmt: skip
    ours = {
        "field": "ours", "type": "nominal", "title": None, "legend": None,
        "scale": {"domain": [True, False], "range": [INKS["accent"][dark], INKS["quiet"][dark]]},
    }  # fmt: skip
    tips = _tips(("label", "way"), ("time_text", "time"), ("range_text", "20th to 80th percentile"),
                 ("ratio_text", "divided by the reference"))  # fmt: skip
    return {
        "height": {"step": 26},
        "encoding": {"y": row, "tooltip": tips},
        "layer": [
            {
                "mark": {"type": "rule", "strokeWidth": 3, "opacity": 0.4, "aria": False},
                "encoding": {"x": {"field": "low_s", **cost}, "x2": {"field": "high_s"}, "color": ours},
            },
            {
                "mark": {"type": "point", "filled": True, "size": 75, "opacity": 1},
                "encoding": {"x": {"field": "time_s", **cost}, "color": ours, "description": {"field": "said"}},
            },
            {
                "mark": {"type": "text", "align": "left", "dx": 9, "fontSize": 11, "aria": False},
                "encoding": {"x": {"field": "time_s", **cost}, "text": {"field": "time_text"}},
            },
        ],
    }  # fmt: skip


def _samples(dark: bool) -> Spec:
    """The samples of a cell, in the order taken, and the median of each process."""
    time = {
        "type": "quantitative", "title": "time per call", "scale": {"zero": False, "padding": 8},
        "axis": {"labelExpr": _SECONDS, "tickCount": 5},
    }  # fmt: skip
    process = {
        "field": "process", "type": "nominal", "title": "process", "axis": {"labelAngle": 0, "grid": False},
    }  # fmt: skip
    return {
        "height": 200,
        "layer": [
            {
                "mark": {"type": "point", "filled": True, "size": 22, "opacity": 0.45, "color": INKS["accent"][dark]},
                "encoding": {"x": process, "y": {"field": "time_s", **time},
                             "xOffset": {"field": "place", "type": "quantitative"},
                             "description": {"field": "said"}, "tooltip": _tips(("said", "sample"))},
            },
            {
                "transform": [{"filter": "datum.median_s != null"}],
                "mark": {"type": "line", "strokeWidth": 2, "color": INKS["ink"][dark], "aria": False},
                "encoding": {"x": process, "y": {"field": "median_s", **time}, "detail": {"field": "process"},
                             "xOffset": {"field": "place", "type": "quantitative"}},
            },
        ],
    }  # fmt: skip


def _history(dark: bool, title: str, label: str) -> Spec:
    """A number of one cell over the runs of one machine, with its interval, the levels, and where they change."""
    time = {
        "type": "quantitative", "title": title, "scale": {"zero": False, "padding": 10},
        "axis": {"tickCount": 4, "labelExpr": label},
    }  # fmt: skip
    run = {"field": "run", "type": "ordinal", "title": "run, oldest first", "sort": None,
           "axis": {"labelAngle": 0, "labelOverlap": "greedy", "labelSeparation": 6, "grid": False}}  # fmt: skip
    tips = _tips(("run_id", "run"), ("commit", "commit"), ("value_text", title), ("range_text", "range"),
                 ("change_text", "change"))  # fmt: skip
    return {
        "height": 170,
        "encoding": {"x": run, "tooltip": tips},
        "layer": [
            {
                "transform": [{"filter": "datum.is_change"}],
                "mark": {"type": "rule", "strokeDash": [4, 3], "color": INKS["bad"][dark], "aria": False},
            },
            {
                "mark": {"type": "rule", "color": INKS["accent"][dark], "strokeWidth": 1.5, "aria": False},
                "encoding": {"y": {"field": "low", **time}, "y2": {"field": "high"}},
            },
            {
                "mark": {"type": "line", "color": INKS["ink"][dark], "strokeWidth": 1.25, "aria": False},
                "encoding": {"y": {"field": "level", **time}, "detail": {"field": "segment"}, "tooltip": None},
            },
            {
                "mark": {"type": "point", "filled": True, "size": 60, "opacity": 1, "color": INKS["accent"][dark]},
                "encoding": {"y": {"field": "value", **time}, "description": {"field": "said"}},
            },
        ],
    }  # fmt: skip
