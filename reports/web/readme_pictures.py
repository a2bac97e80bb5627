"""Describes the pictures of the README, with the charts of the page, from the newest published run of each platform."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

from reports.pages.rows import BASELINE, CellRow, backends_of, cell_rows
from reports.pages.run_notes import device_name
from reports.records.record import Record
from reports.records.run_file import load_run
from reports.records.store import list_runs
from reports.web.chart_data import OURS, Point, call_points, ratio_points
from reports.web.chart_specs import SCHEMA, Spec, chart_specs
from reports.web.chart_theme import BASELINE_COLOR, INKS, SERIES, chart_config, series_scale
from reports.web.kernel_grid import kernels
from reports.web.run_choice import RunKind, kind_of

_LOOP = "loop"
"""The situation of the dispatch benchmark that the picture shows: a call in a compiled loop."""

_DIGEST = re.compile(r"<!-- data ([0-9a-f]{64}) -->")

Newest = Mapping[tuple[RunKind, str], Sequence[CellRow]]


def newest_runs(published: Path) -> dict[tuple[RunKind, str], list[CellRow]]:
    """Returns the cells of the newest run of each kind and platform. Runs of selected cells only are left out.

    Args:
        published: The folder of the published runs, with a folder for each machine.

    Raises:
        ReportError: A run cannot be read.
    """
    found: dict[tuple[RunKind, str], list[Record]] = {}
    for folder in sorted(path for path in published.iterdir() if path.is_dir()):
        for path in list_runs(folder):
            records = load_run(path).records
            if not records or records[0].run.selection:
                continue
            key = kind_of(records), records[0].run.device.platform
            if key not in found or records[0].run.started > found[key][0].run.started:
                found[key] = records
    return {key: cell_rows(records) for key, records in found.items()}


def picture_specs(newest: Newest) -> dict[str, Spec]:
    """Returns the pictures in Vega-Lite, with their data, by the name of their file; one without data is absent."""
    made = {"dispatch.svg": _dispatch(newest), "ratios.svg": _ratios(newest)}
    return {name: spec for name, spec in made.items() if spec is not None}


def digest(spec: Spec) -> str:
    """Returns what identifies a picture: the digest of its description and data."""
    return hashlib.sha256(json.dumps(spec, sort_keys=True).encode()).hexdigest()


def recorded_digest(svg: str) -> str | None:
    """Returns the digest that a picture was drawn with; None in a file without one."""
    found = _DIGEST.search(svg)
    return found and found[1]


def finished(svg: str, spec: Spec, title: str) -> str:
    """Returns a drawn picture with its digest, its title, and the colours that it takes on a dark page."""
    pairs = [*INKS.values(), *SERIES, BASELINE_COLOR]
    rules = [f'[{name}="{light}"] {{ {name}: {dark} }}' for light, dark in pairs for name in ("fill", "stroke")]
    style = f"<style>@media (prefers-color-scheme: dark) {{ {' '.join(rules)} }}</style>"
    head = f"<!-- data {digest(spec)} -->\n{style}\n<title>{escape(title)}</title>\n"
    end = svg.index(">", svg.index("<svg")) + 1
    return f"{svg[:end]}\n{head}{svg[end:]}\n"


TITLES = {
    "dispatch.svg": "Cost of one call in a compiled loop",
    "ratios.svg": f"Time of each kernel, divided by the time of {BASELINE}",
}
"""The titles of the pictures."""


def _dispatch(newest: Newest) -> Spec | None:
    panels = []
    for platform in ("cpu", "cuda"):
        rows = [row for row in newest.get((RunKind.CALLS, platform), ()) if row.cell.mode == _LOOP]
        for points in call_points(rows).values():
            # The colour says which ways belong to this project.
            short = [point | {"label": point["label"].replace(f" ({OURS})", "")} for point in points]
            panels.append(_panel("calls", rows, short, [], width=250))
    said = "Time of a small float32 add, on a log scale; left is better. Blue: kernel-bridge."
    return _picture(TITLES["dispatch.svg"], said, panels)


def _ratios(newest: Newest) -> Spec | None:
    forward = {
        platform: [row for row in newest.get((RunKind.TIMES, platform), ()) if row.cell.mode == "forward"]
        for platform in ("cpu", "cuda")
    }
    # Both panels have the same rows, as far as both platforms timed an operator.
    timed = [{row.cell.operator for row in rows} for rows in forward.values() if rows]
    shared = set.intersection(*timed) if timed else set()
    forward = {
        platform: [row for row in rows if row.cell.operator in shared] if shared else rows
        for platform, rows in forward.items()
    }
    backends = backends_of([row for rows in forward.values() for row in rows])
    panels = []
    for rows in forward.values():
        points = ratio_points(kernels(rows))
        if points:
            panels.append(_panel("ratios", rows, points, backends, width=290))
    said = f"Geometric mean over sizes, with its 95% interval; left of 1 is faster than XLA's own code ({BASELINE})."
    return _picture(TITLES["ratios.svg"], said, panels)


def _panel(chart: str, rows: Iterable[CellRow], points: list[Point], backends: Sequence[str], *, width: int) -> Spec:
    # A backend has one colour in both panels; the key of a panel has those that are there.
    present = {point.get("backend") for point in points}
    places = {name: place for name, place in series_scale(backends).items() if name in present}
    spec = chart_specs(places)[chart]
    run = next(iter(rows)).run
    where = {"cpu": "CPU", "cuda": "GPU"}[run.device.platform]
    kept: Spec = {name: value for name, value in spec.items() if name not in ("$schema", "autosize", "data")}
    return {
        **kept, "width": width, "data": {"values": points},
        "title": {"text": f"{where}: {device_name(run)}", "fontSize": 12, "anchor": "start"},
    }  # fmt: skip


def _picture(title: str, said: str, panels: list[dict[str, Any]]) -> Spec | None:
    if not panels:
        return None
    return {
        "$schema": SCHEMA, "background": INKS["page"][0], "padding": {"left": 36, "right": 44, "top": 14, "bottom": 12},
        "config": _config(),
        "title": {"text": title, "subtitle": said, "anchor": "start", "fontSize": 17, "offset": 16,
                  "frame": "bounds"},
        "hconcat": panels, "spacing": 40,
        "resolve": {"scale": dict.fromkeys(("x", "y", "color", "shape"), "independent")},
    }  # fmt: skip


def _config() -> dict[str, Any]:
    """The look of the charts, with keys that need less width."""
    look = {name: part for name, part in chart_config(dark=False).items() if name not in ("background", "padding")}
    return {**look, "legend": {**look["legend"], "columns": 3, "labelFontSize": 11, "symbolSize": 50}}
