"""Holds the colours and shapes of charts, on a light and on a dark page, for readers of every colour vision."""

from __future__ import annotations

import json
from collections.abc import Iterable
from importlib import resources

from reports.pages.rows import BASELINE

_MARKS = json.loads(resources.files("reports.web").joinpath("assets", "marks.json").read_text(encoding="utf-8"))

INKS: dict[str, list[str]] = _MARKS["inks"]
"""Colours by name, each on a light and on a dark page."""

BASELINE_COLOR: list[str] = _MARKS["baseline"]

SERIES: list[list[str]] = _MARKS["series"]
"""The colours of backends: first the palette of Okabe and Ito, darker, so that they keep 4.5 to 1 on white; then those
that differ most from all before, for full colour vision and for deuteranopia."""

PATHS: dict[str, str] = _MARKS["paths"]
"""The shapes as paths in a square from -1 to 1; the baseline is the bar."""

_KNOWN: list[str] = _MARKS["known"]
"""Backends that have the same colour on every page. The others get those that are left."""

_SHAPES = tuple(PATHS)[1:]

Mark = tuple[tuple[str, ...], str]
"""How a backend is drawn: its colour on a light and on a dark page, and the path of its shape."""


def marks_of(backends: Iterable[str]) -> dict[str, Mark]:
    """Returns how each backend of a page is drawn. Up to 24 backends differ in colour, more in colour or shape."""
    names = sorted({*backends} - {BASELINE})
    places = {name: _KNOWN.index(name) for name in names if name in _KNOWN}
    free = iter([place for place in range(len(_KNOWN) + len(names)) if place not in places.values()])
    places |= {name: next(free) for name in names if name not in places}
    marks = {
        name: (tuple(SERIES[place % len(SERIES)]), PATHS[_SHAPES[(place + place // len(SERIES)) % len(_SHAPES)]])
        for name, place in places.items()
    }
    return {**marks, BASELINE: (tuple(BASELINE_COLOR), PATHS["bar"])}


def dark_colors() -> str:
    """Returns the variables of the style sheet that give the colours of drawn charts on a dark page."""
    pairs = dict([*INKS.values(), *SERIES, BASELINE_COLOR])
    declared = " ".join(f"--c{light[1:]}: {dark};" for light, dark in pairs.items())
    return f"@media screen and (prefers-color-scheme: dark) {{ :root {{ {declared} }} }}"
