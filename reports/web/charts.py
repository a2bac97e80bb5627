"""Draws the charts of the page and of the README as SVG, from the descriptions in `assets/charts.json` (Vega-Lite)."""

from __future__ import annotations

import functools
import itertools
import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from importlib.resources import files
from typing import Any

from reports.errors import LibraryMissing
from reports.pages.rows import BASELINE, CellRow
from reports.records.cell import short_dtype
from reports.render.units import interval_text, percent_text, rate_text, ratio_text, time_text
from reports.render.visible import visible
from reports.web.chart_theme import INKS, Mark, marks_of
from reports.web.kernel_grid import KernelSummary
from reports.web.markup import Markup, element

SCHEMA = "https://vega.github.io/schema/vega-lite/v6.json"
"""The version of Vega-Lite. It names a layout; nothing is loaded from there."""

Point = dict[str, Any]


def spec_of(
    chart: str, rows: Sequence[Point], width: int, marks: Mapping[str, Mark] | None = None, *, legend: bool = False
) -> dict[str, Any]:
    """Returns the description of a chart with its rows, in the colours of a light page.

    Args:
        chart: Its name in `assets/charts.json`.
        rows: Its rows.
        width: Its width in pixels.
        marks: How its backends are drawn; by default as on a page of them alone.
        legend: Whether it has a key of its backends; the page has one beside it.
    """
    described = _described()
    names = sorted({row["backend"] for row in rows if "backend" in row})
    marks = marks or marks_of(names)
    height = described[chart]["height"]
    if chart in _PLACED:
        height, rows = _PLACED[chart](rows, width, height)
    centres = {row["centre"]: row["label"] for row in rows if "centre" in row}
    values: dict[str, Any] = {
        **described["fragments"],
        **_INKS,
        "names": names,
        "colors": [marks[name][0][0] for name in names],
        "shapes": [marks[name][1] for name in names],
        "sizes": sorted({row["size"] for row in rows if "size" in row}),
        "over": f"time / {rows[0].get('over')} (log scale)" if rows else "",
        "centres": [*centres],
        "labels": f"split({json.dumps([*centres.values()])}[indexof({[*centres]}, datum.value)], ' · ')",
        "heights": [0, height],
        "limit": width * 0.4,
        "legend": {"title": None} if legend else None,
    }
    return {**_filled(described[chart], values), "height": height, "width": width, "data": {"values": list(rows)}}


def chart_config() -> dict[str, Any]:
    """Returns the look of all charts as a configuration of Vega-Lite, in the colours of a light page."""
    config: dict[str, Any] = _filled(_described()["fragments"]["config"], _INKS)
    return config


def svg_of(spec: Mapping[str, Any]) -> str:
    """Returns a chart as SVG, drawn without a browser.

    Raises:
        LibraryMissing: The plotting library is not installed.
    """
    # A page keeps no lines that nobody sees, and positions to a hundredth of a pixel: so it is much smaller.
    return re.sub(r'<line [^>]* opacity="0"/>|(?<=\.\d\d)\d{4,}', "", str(_library().vegalite_to_svg(spec)))


def figure(
    chart: str,
    title: str,
    note: str,
    rows: Sequence[Point],
    marks: Mapping[str, Mark],
    *widths: int,
    keyed: bool = True,
) -> Markup:
    """Returns a drawn chart with its heading and its key; it needs no script.

    Args:
        chart: Its name.
        title: Its heading.
        note: A text below the heading.
        rows: Its rows.
        marks: How the backends of the page are drawn.
        *widths: Its width in pixels; or that on a wide screen and on paper, and that on a phone.
        keyed: Whether it has a key of its own.
    """
    drawn = []
    for width in widths:
        css = "" if len(widths) == 1 else "narrow" if width == min(widths) else "wide" if width > 600 else "wide half"
        autosize = {"type": "fit-x", "contains": "padding"}
        # Letters of the reader's font may be wider than those that the labels were measured with.
        longest = max((len(part) for row in rows for part in str(row.get("label", "")).split(" · ")), default=0)
        svg = svg_of({"$schema": SCHEMA, "autosize": autosize, "config": chart_config(),
                      "padding": {"left": 4 + longest, "top": 4, "right": 10, "bottom": 4},
                      **spec_of(chart, rows, width, marks)})  # fmt: skip
        # Text has the font of the page. A browser shows the title of a mark beside the pointer.
        svg = re.sub(r' (font-family|role|aria-roledescription)="[^"]*"', "", svg)
        svg = re.sub(r'<(\w+) aria-label="([^"]*)"([^>]*?)/>', r"<\1\3><title>\2</title></\1>", svg)
        # The fallback is the light colour; the style sheet gives the variable its dark one.
        drawn.append(Markup(re.sub(r'"(#[0-9a-f]{6})"', r'"var(--c\1, \1)"', svg).replace("--c#", "--c")))
        drawn[-1] = element("div", {"class": f"plot {css}"}, drawn[-1])
    return element(
        "figure", {"class": "chart"},
        element("figcaption", None, element("h4", None, title), element("p", {"class": "faint"}, note or None)),
        key([row["backend"] for row in rows if "backend" in row], marks) if keyed else None, drawn,
    )  # fmt: skip


def key(backends: Iterable[str], marks: Mapping[str, Mark]) -> Markup | None:
    """Returns the marks and names of some backends; None without any."""
    names = sorted(set(backends))
    if not names:
        return None
    items = [
        element("span", None, element("svg", {"width": 14, "height": 14, "viewBox": "-1.4 -1.4 2.8 2.8",
                "aria-hidden": "true"}, element("path", {"d": marks[name][1],
                "fill": f"var(--c{marks[name][0][0][1:]}, {marks[name][0][0]})"})), name)
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
    """Returns a point for each kernel with a ratio to the baseline, or to the fastest kernel where that is missing."""
    return [
        {
            "label": visible(kernel.label), "backend": visible(kernel.backend), "ratio": _short(mean.mean),
            "low": _short(mean.low), "high": _short(mean.high), "over": kernel.over,
            "said": visible(f"{kernel.label}, {kernel.backend}: {ratio_text(mean.mean)}, interval"
                            f" {interval_text(mean.low, mean.high)}"),
        }
        for kernel in kernels if (mean := kernel.ratio).mean is not None and kernel.backend != BASELINE
    ]  # fmt: skip


def roof_points(rows: Sequence[CellRow]) -> list[Point]:
    """Returns a point for each kernel with a known ceiling, at its largest size, and the ceilings; else nothing.

    A ceiling is the roof that the run measured for the cell: memory or operations. A cell without one,
    whose limit is unknown, is left out. The line of a memory rises up to the highest line of operations, and a line of
    operations begins at the steepest line of a memory.
    """
    points: list[Point] = []
    slopes: dict[str, float] = {}
    flats: dict[str, float] = {}
    known = [row for row in rows if row.timing and row.record.bytes and row.record.flop_rate and row.record.roof_ns]
    largest = {_kernel(row): row.cell.size for row in sorted(known, key=lambda row: row.cell.size)}
    dtypes = {row.cell.dtype for row in known}
    for row in known:
        record, kind, work = row.record, row.record.roof_kind, row.record.flops
        if kind is None or not work or not record.bytes or not record.roof_ns:
            continue
        if record.bandwidth_limit and kind == record.bandwidth_limit_kind:
            # Reads, copies and triads of one memory differ less than memories do: one line for each memory.
            # A copy of data that no cache holds is "copy of 1.07 GB, cold".
            memory = kind.rpartition(", ")[2].replace("cold", "memory")
            slopes[memory] = max(slopes.get(memory, 0.0), record.bandwidth_limit)
        elif "flop" in kind:
            flats[kind] = max(flats.get(kind, 0.0), work / record.roof_ns * 1e9)
        if row.cell.size == largest[_kernel(row)]:
            dtype = f" {short_dtype(row.cell.dtype)}" if len(dtypes) > 1 else ""
            points.append(
                {
                    "line": False, "label": visible(row.cell.operator + dtype), "backend": visible(row.cell.backend),
                    "intensity": _short(work / record.bytes), "rate": _short(record.flop_rate), "roof": visible(kind),
                    "said": visible(f"{row.cell.id}: {percent_text(record.roof_share or 0.0)}% of {kind}"),
                }
            )  # fmt: skip
    if not points:
        return []
    steepest, highest = max(slopes.values(), default=math.inf), max(flats.values(), default=math.inf)
    spots = [point["intensity"] for point in points] + [highest / steepest] * bool(slopes and flats)
    first, last = min(spots) / 1.5, max(spots) * 1.5
    lines = []
    ceilings = [*sorted(flats.items()), *sorted(slopes.items(), key=lambda slope: -slope[1])]
    for number, (name, rate) in enumerate(ceilings):
        rises = name in slopes
        ends = (first, min(last, highest / rate)) if rises else (max(first, rate / steepest), last)
        text = f"{name}, {rate_text(rate, 'B/s')}" if rises else name
        # The texts of memories stand at different places of their lines; that of operations stands at the end.
        share = 0.5 + 0.4 * (number - len(flats)) / len(slopes) if rises else 1.0
        for intensity, said in ((ends[0], ""), (ends[1], ""), (ends[0] * (ends[1] / ends[0]) ** share, text)):
            lines.append({"line": True, "roof": visible(name), "intensity": _short(intensity), "rises": rises,
                          "rate": _short(rate * intensity if rises else rate), "name": visible(said)})  # fmt: skip
    return [*points, *lines]


def _kernel(row: CellRow) -> tuple[str, ...]:
    return row.cell.operator, row.cell.mode, row.cell.dtype, row.cell.backend


Placed = tuple[float, Sequence[Point]]


def _in_lanes(rows: Sequence[Point], width: int, _: float) -> Placed:
    """Gives each label a row, and each point that would cover another one of its row a lane of its own."""
    logs = [math.log(row[name]) for row in rows for name in ("ratio", "low", "high") if row[name]]
    apart = 14 * (max(logs, default=0.0) - min(logs, default=0.0)) / (width * 0.55)
    ends: dict[str, list[float]] = {}
    lanes: dict[int, int] = {}
    for row in sorted(rows, key=lambda row: row["ratio"]):
        own, at = ends.setdefault(row["label"], []), math.log(row["ratio"])
        lane = lanes[id(row)] = next((lane for lane, end in enumerate(own) if at - end > apart), len(own))
        own[lane : lane + 1] = [at]
    height, tops = 0, {}
    for label in dict.fromkeys(row["label"] for row in rows):
        room = 10 * len(ends[label]) + 12 * label.count(" · ")
        tops[label], height = (height, room), height + room + 12
    placed = []
    for row in rows:
        (top, room), count = tops[row["label"]], len(ends[row["label"]])
        centre = top + room // 2 + 6
        placed.append({**row, "centre": centre, "y": centre + 10 * lanes[id(row)] - 5 * (count - 1)})
    return height, placed


def _with_names(rows: Sequence[Point], width: int, height: float) -> Placed:
    """Places the name of each operator beside its fastest point, where it covers no point and no other name."""
    xs, ys = ([math.log(row[axis]) for row in rows] for axis in ("intensity", "rate"))
    across, down = (max(xs) - min(xs)) / (width - 60) or 1.0, (max(ys) - min(ys)) / height or 1.0
    dots = [row for row in rows if not row["line"]]
    taken = [(math.log(dot["intensity"]), math.log(dot["rate"]), 5 * across) for dot in dots]
    for row in rows:
        if half := 3.2 * across * len(row.get("name", "")):
            taken.append((math.log(row["intensity"]) - half, math.log(row["rate"]) + 10 * down, half))
    best = {dot["label"]: dot for dot in sorted(dots, key=lambda dot: dot["rate"])}
    named = []
    for dot in sorted(best.values(), key=lambda dot: -dot["rate"]):
        half = 3.2 * len(dot["label"]) * across
        for step, side in itertools.product(sorted(range(-12, 13), key=abs), (1, -1)):
            x = math.log(dot["intensity"]) + side * (half + 8 * across)
            y = math.log(dot["rate"]) + 11 * step * down
            if min(xs) <= x - half and x + half <= max(xs) and min(ys) <= y <= max(ys) and all(
                abs(x - other) >= half + wide or abs(y - place) >= 10 * down for other, place, wide in taken
            ):  # fmt: skip
                taken.append((x, y, half))
                named.append({"named": dot["label"], "x": _short(math.exp(x)), "y": _short(math.exp(y)),
                              "edge": _short(math.exp(x - side * half)), "at": dot["intensity"],
                              "of": dot["rate"]})  # fmt: skip
                break
    return height, [*rows, *named]


_PLACED = {"forest": _in_lanes, "roofs": _with_names}
"""Moves what would cover something else, by the name of a chart: from rows, width and height to height and rows."""

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
