"""Draws curves as SVG, in panels beside each other.

The text is SVG text and the positions are simple arithmetic, so the same numbers give the same file everywhere.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape

_WIDTH, _HEIGHT = 460, 330
_LEFT, _TOP, _PLOT_WIDTH, _PLOT_HEIGHT = 52, 76, 330, 190
_COLORS = ("#0b63ce", "#b35900", "#1a7f37", "#8250df", "#cf222e", "#59636e")

_STYLE = """
  .page { fill: #ffffff; stroke: #d1d9e0 }
  text { font: 13px system-ui, "Segoe UI", Helvetica, Arial, sans-serif; fill: #1f2328 }
  .title { font-size: 16px; font-weight: 600 }
  .head { font-weight: 600 }
  .note { fill: #59636e; font-size: 12px }
  .line { stroke: #d1d9e0; stroke-width: 1 }
  .limit { stroke: #59636e; stroke-width: 1; stroke-dasharray: 5 4 }
  .curve { fill: none; stroke-width: 2 }
  @media (prefers-color-scheme: dark) {
    .page { fill: #0d1117; stroke: #3d444d }
    text { fill: #f0f6fc }
    .note { fill: #9198a1 }
    .line { stroke: #30363d }
    .limit { stroke: #9198a1 }
  }
"""


@dataclass(frozen=True, slots=True)
class Curve:
    """A curve: its name, and its points from left to right."""

    name: str
    points: list[tuple[float, float]]


@dataclass(frozen=True, slots=True)
class Panel:
    """Curves over one axis, which begins at zero.

    Attributes:
        head: What is above it: the quantity and its unit.
        below: What is below it: the axis.
        curves: The curves; they need one point or more.
        limit: A value that is marked by a dashed line.
    """

    head: str
    below: str
    curves: list[Curve]
    limit: float | None = None


def draw(title: str, panels: Sequence[Panel]) -> str:
    """Returns panels beside each other, as the text of an SVG file."""
    width = _WIDTH * len(panels)
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {_HEIGHT}" width="{width}" height="{_HEIGHT}"'
        f' role="img" aria-label="{escape(title, {chr(34): "&quot;"})}">',
        f"<style>{_STYLE}</style>",
        f'<rect class="page" x="0.5" y="0.5" width="{width - 1}" height="{_HEIGHT - 1}" rx="6"/>',
        _text(_LEFT, 30, title, "title"),
    ]
    for place, panel in enumerate(panels):
        lines += _panel(panel, place * _WIDTH + _LEFT)
    return "\n".join([*lines, "</svg>", ""])


def _panel(panel: Panel, left: float) -> list[str]:
    points = [point for curve in panel.curves for point in curve.points]
    first, last = min(x for x, _ in points), max(x for x, _ in points)
    top = _step_above(max(max(y for _, y in points), panel.limit or 0))

    def place(x: float, y: float) -> tuple[float, float]:
        share = (x - first) / (last - first) if last > first else 0.5
        return left + _PLOT_WIDTH * share, _TOP + _PLOT_HEIGHT * (1 - y / top)

    lines = [_text(left, _TOP - 16, panel.head, "head")]
    for part in range(5):
        y = place(first, top * part / 4)[1]
        lines.append(_line(left, y, left + _PLOT_WIDTH, y, "line"))
        lines.append(_text(left - 8, y + 4, f"{top * part / 4:g}", "note", "end"))
    bottom = _TOP + _PLOT_HEIGHT
    for x in sorted({x for x, _ in points}):
        lines.append(_text(place(x, 0)[0], bottom + 18, f"{x:g}", "note", "middle"))
    lines.append(_text(left + _PLOT_WIDTH / 2, bottom + 40, panel.below, "note", "middle"))
    if panel.limit is not None:
        y = place(first, panel.limit)[1]
        lines.append(_line(left, y, left + _PLOT_WIDTH, y, "limit"))
    names: list[float] = []
    for number, curve in enumerate(panel.curves):
        color = _COLORS[number % len(_COLORS)]
        drawn = [place(x, y) for x, y in curve.points]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in drawn)
        lines.append(f'<polyline class="curve" style="stroke: {color}" points="{path}"/>')
        lines += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.5" style="fill: {color}"/>' for x, y in drawn]
        height = drawn[-1][1] + 4
        # Names at the ends of curves must not cover each other.
        while any(abs(height - other) < 14 for other in names):
            height += 2
        names.append(height)
        lines.append(_text(left + _PLOT_WIDTH + 10, height, curve.name, "note"))
    return lines


def _step_above(value: float) -> float:
    """Returns 1, 2, 4 or 10 times a power of ten that is not below the value."""
    step = 1e-9
    while True:
        for factor in (1, 2, 4):
            if step * factor >= value * (1 - 1e-9):
                return float(f"{step * factor:.6g}")
        step *= 10


def _line(x1: float, y1: float, x2: float, y2: float, css: str) -> str:
    return f'<line class="{css}" x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"/>'


def _text(x: float, y: float, words: str, css: str, anchor: str = "start") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" class="{css}" text-anchor="{anchor}">{escape(words)}</text>'
