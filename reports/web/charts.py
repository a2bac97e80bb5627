"""Draws the charts of the page and of the README as SVG, from the descriptions in `assets/charts.json` (Vega-Lite)."""

from __future__ import annotations

import functools
import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from importlib.resources import files
from typing import Any

from reports.errors import LibraryMissing
from reports.pages.rows import BASELINE, CellRow
from reports.render.units import interval_text, percent_text, ratio_text, time_text
from reports.render.visible import visible
from reports.web.chart_theme import INKS, PATHS, color_of, shape_of
from reports.web.kernel_grid import KernelSummary
from reports.web.markup import Markup, element

SCHEMA = "https://vega.github.io/schema/vega-lite/v6.json"
"""The version of Vega-Lite. It names a layout; nothing is loaded from there."""

Point = dict[str, Any]


def spec_of(chart: str, rows: Sequence[Point], width: int, *, legend: bool = False) -> dict[str, Any]:
    """Returns the description of a chart with its rows, in the colours of a light page.

    Args:
        chart: Its name in `assets/charts.json`.
        rows: Its rows.
        width: Its width in pixels.
        legend: Whether it has a key of its backends; the page has one beside it.
    """
    described = _described()
    names = sorted({row["backend"] for row in rows if "backend" in row})
    values: dict[str, Any] = {
        **described["fragments"],
        **_INKS,
        "names": names,
        "colors": [color_of(name)[0] for name in names],
        "shapes": [PATHS[shape_of(name)] for name in names],
        "sizes": sorted({row["size"] for row in rows if "size" in row}),
        "legend": {"title": None} if legend else None,
    }
    spec = _filled(described[chart], values)
    if isinstance(spec["height"], dict):
        spec["height"] = spec["height"]["step"] * len({row["label"] for row in rows})
    return {**spec, "width": width, "data": {"values": list(rows)}}


def chart_config() -> dict[str, Any]:
    """Returns the look of all charts as a configuration of Vega-Lite, in the colours of a light page."""
    config: dict[str, Any] = _filled(_described()["fragments"]["config"], _INKS)
    return config


def svg_of(spec: Mapping[str, Any]) -> str:
    """Returns a chart as SVG, drawn without a browser.

    Raises:
        LibraryMissing: The plotting library is not installed.
    """
    return str(_library().vegalite_to_svg(spec))


def figure(chart: str, title: str, note: str, rows: Sequence[Point], width: int) -> Markup:
    """Returns a drawn chart with its heading and its key; it needs no script.

    Args:
        chart: Its name.
        title: Its heading.
        note: A text below the heading.
        rows: Its rows.
        width: Its width in pixels.
    """
    spec = {
        "$schema": SCHEMA, "autosize": {"type": "fit-x", "contains": "padding"}, "config": chart_config(),
        **spec_of(chart, rows, width),
    }  # fmt: skip
    # The fallback is the light colour; the style sheet gives the variable its dark one.
    svg = re.sub(r'"(#[0-9a-f]{6})"', r'"var(--c\1, \1)"', svg_of(spec)).replace("--c#", "--c")
    return element(
        "figure", {"class": "chart"},
        element("figcaption", None, element("h4", None, title), element("p", {"class": "faint"}, note or None)),
        key([row["backend"] for row in rows if "backend" in row]),
        element("div", {"class": "plot wide" if width > 400 else "plot"}, Markup(svg)),
    )  # fmt: skip


def key(backends: Iterable[str]) -> Markup | None:
    """Returns the marks and names of some backends; None without any."""
    names = sorted(set(backends))
    if not names:
        return None
    items = [
        element("span", None, element("svg", {"width": 14, "height": 14, "viewBox": "-1.4 -1.4 2.8 2.8",
                "aria-hidden": "true"}, element("path", {"d": PATHS[shape_of(name)],
                "fill": f"var(--c{color_of(name)[0][1:]}, {color_of(name)[0]})"})), name)
        for name in names
    ]  # fmt: skip
    return element("div", {"class": "series-key"}, items)


def time_points(rows: Iterable[CellRow]) -> list[Point]:
    """Returns a point for each timed cell: its time, its size, and the commit of its run."""
    return [
        {
            "backend": visible(row.cell.backend), "size": row.cell.size, "time_s": _short(row.timing.median_ns * 1e-9),
            "low_s": _short(row.timing.low_ns * 1e-9), "high_s": _short(row.timing.high_ns * 1e-9),
            "commit": f"{(row.run.source.commit or 'unknown')[:7]} {row.run.started[5:16].replace('T', ' ')}",
            "said": visible(f"{row.cell.id}: {time_text(row.timing.median_ns)}"),
        }
        for row in sorted(rows, key=lambda row: (row.cell.backend, row.cell.size, row.run.started)) if row.timing
    ]  # fmt: skip


def ratio_points(kernels: Iterable[KernelSummary]) -> list[Point]:
    """Returns a point for each kernel with a ratio to the baseline."""
    points = []
    for kernel in kernels:
        mean = kernel.ratio
        if kernel.backend == BASELINE or mean.mean is None:
            continue
        points.append(
            {
                "label": visible(kernel.label), "backend": visible(kernel.backend), "ratio": _short(mean.mean),
                "low": _short(mean.low), "high": _short(mean.high), "said": visible(f"{kernel.label}, {kernel.backend}:"
                f" {ratio_text(mean.mean)}, interval {interval_text(mean.low, mean.high)}"),
            }
        )  # fmt: skip
    return points


def roof_points(rows: Sequence[CellRow]) -> list[Point]:
    """Returns a point for each timed cell with a known ceiling, and the lines of the ceilings; else nothing.

    A ceiling is the roof that the run measured for the cell: memory, scattered reads or operations. A cell without one,
    whose limit is unknown, is left out.
    """
    points: list[Point] = []
    slopes: dict[str, float] = {}
    flats: dict[str, float] = {}
    for row in rows:
        record = row.record
        if row.timing is None or not record.flops or not record.bytes or record.flop_rate is None:
            continue
        if record.roof_ns is None or record.roof_kind is None:
            continue
        rate = record.flops / record.roof_ns * 1e9
        if record.bandwidth_limit and record.roof_kind == record.bandwidth_limit_kind:
            # Reads, copies and triads of one memory differ less than memories do: one line for each memory.
            # A copy of data that no cache holds is "copy of 1.07 GB, cold".
            memory = record.roof_kind.rpartition(", ")[2].replace("cold", "memory")
            slopes[memory] = max(slopes.get(memory, 0.0), record.bandwidth_limit)
        elif "flop" in record.roof_kind:
            flats[record.roof_kind] = max(flats.get(record.roof_kind, 0.0), rate)
        points.append(
            {
                "line": False, "label": visible(row.cell.operator), "backend": visible(row.cell.backend),
                "intensity": _short(record.flops / record.bytes), "rate": _short(record.flop_rate),
                "roof": visible(record.roof_kind),
                "said": visible(f"{row.cell.id}: {percent_text(record.roof_share or 0.0)}% of {record.roof_kind}"),
            }
        )  # fmt: skip
    if not points:
        return []
    ends = min(point["intensity"] for point in points) / 1.5, max(point["intensity"] for point in points) * 1.5
    lines = []
    for number, (name, rate) in enumerate([*sorted(slopes.items()), *sorted(flats.items())]):
        # The names stand at different places of their lines, which can be near each other.
        middle = ends[1] / (ends[1] / ends[0]) ** (0.02 + 0.1 * number)
        for intensity in (*ends, middle):
            height = rate * intensity if name in slopes else rate
            lines.append({"line": True, "roof": visible(name), "intensity": _short(intensity), "rate": _short(height),
                          "name": intensity is middle})  # fmt: skip
    return [*points, *lines]


_INKS = {name: shades[0] for name, shades in INKS.items()}


def _described() -> Any:
    return json.loads(files("reports.web").joinpath("assets", "charts.json").read_text(encoding="utf-8"))


def _filled(part: Any, values: Mapping[str, Any]) -> Any:
    """Returns a part of a description in which each text `@name` is the value of that name."""
    if isinstance(part, dict):
        return {name: _filled(each, values) for name, each in part.items()}
    if isinstance(part, list):
        return [_filled(each, values) for each in part]
    return values[part[1:]] if isinstance(part, str) and part.startswith("@") else part


def _short(value: float | None) -> float | None:
    """Returns a number with five significant digits, enough for a picture; None where it is not finite."""
    return None if value is None or not math.isfinite(value) else float(f"{value:.5g}")


@functools.cache
def _library() -> Any:
    try:
        import vl_convert
    except ImportError as error:
        raise LibraryMissing(
            "the charts need vl-convert-python, which is not installed. Install it:"
            ' python -m pip install "vl-convert-python>=1.9"'
        ) from error
    return vl_convert
