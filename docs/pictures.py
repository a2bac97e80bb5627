"""Draws the picture of the README from the published measurements: `python docs/pictures.py` writes docs/dispatch.svg.

The text is SVG text and the positions are simple arithmetic, so the same measurements give the same file everywhere.
"""

from __future__ import annotations

import gzip
import json
import math
import statistics
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

DOCS = Path(__file__).resolve().parent
PUBLISHED = DOCS.parent / "reports" / "published"
PICTURE = DOCS / "dispatch.svg"

RUNS = {"xeon-2core": "20261121T094551-d15c", "h200": "20261121T174844-d15d"}
"""The run of the dispatch benchmark on each machine."""

WIDTH, HEIGHT = 960, 392
LABELS = 214
"""Where the labels of the rows end, in pixels."""
PLOT = 312
"""Width of a panel in pixels."""
LEFT, RIGHT = LABELS + 22, WIDTH - PLOT - 34
TOP, ROW = 112, 31
FIRST_DECADE, LAST_DECADE = -3, 3
"""The axis goes from 0.001 to 1,000 microseconds."""

STYLE = """
  .page { fill: #ffffff; stroke: #d1d9e0 }
  text { font: 13px system-ui, "Segoe UI", Helvetica, Arial, sans-serif; fill: #1f2328 }
  .title { font-size: 17px; font-weight: 600 }
  .head { font-size: 14px; font-weight: 600 }
  .note { fill: #59636e; font-size: 12px }
  .ours { fill: #0b63ce }
  .other { fill: #8c6d1f }
  .label.ours { font-weight: 600 }
  .halo { fill: #ffffff; stroke: #ffffff; stroke-width: 4px }
  .line { stroke: #d1d9e0; stroke-width: 1 }
  .stem { stroke-width: 3; stroke: #b6bec7 }
  .stem.ours { stroke: #7fb0ea }
  @media (prefers-color-scheme: dark) {
    .page { fill: #0d1117; stroke: #3d444d }
    text { fill: #f0f6fc }
    .note { fill: #9198a1 }
    .ours { fill: #6cb2ff }
    .other { fill: #d9b44a }
    .halo { fill: #0d1117; stroke: #0d1117 }
    .line { stroke: #30363d }
    .stem { stroke: #4b535d }
    .stem.ours { stroke: #2f6db5 }
  }
"""


@dataclass(frozen=True)
class Way:
    """A way to call a kernel: its label, and its name in the records of each machine (None: not measured there)."""

    label: str
    cpu: str | None
    gpu: str | None
    ours: bool = False


PATHS = (
    Way("Numba, Numba-CUDA", "numba", "numba-cuda", ours=True),
    Way("Warp", "warp-native", "warp-native", ours=True),
    Way("handler written in C++", "cpp", "cpp"),
    Way("warp.jax_kernel", "warp", "warp"),
    Way("jax.pure_callback", "callback", None),
    Way("jnp.add, compiled by XLA", "jnp", "jnp"),
)


def medians_us(machine: str) -> dict[str, float]:
    """Median microseconds of a call in a compiled loop, by path.

    It reads the JSON itself, so that the script needs no installed package.
    """
    lines = gzip.decompress((PUBLISHED / machine / f"{RUNS[machine]}.jsonl.gz").read_bytes()).splitlines()
    records: list[dict[str, Any]] = [json.loads(line) for line in lines]
    return {
        record["cell"]["backend"]: statistics.median(samples_of(record["timing"])) / 1000
        for record in records
        if record["cell"]["mode"] == "loop"
    }


def samples_of(timing: dict[str, Any]) -> list[float]:
    """The samples of all processes; before schema 4, each cell was timed in one."""
    if "processes" not in timing:
        return list(timing["samples_ns"])
    return [sample for process in timing["processes"] for sample in process["samples_ns"]]


def position(microseconds: float) -> float:
    """Pixels from the left end of the axis."""
    return PLOT * (math.log10(microseconds) - FIRST_DECADE) / (LAST_DECADE - FIRST_DECADE)


def number(microseconds: float) -> str:
    """Two or three digits, never an exponent."""
    return f"{microseconds:.0f}" if microseconds >= 100 else f"{microseconds:.2g}"


def text(x: float, y: float, words: str, css: str = "", anchor: str = "start") -> str:
    """One line of text."""
    style = f' class="{css}"' if css else ""
    return f'<text x="{x:.1f}" y="{y:.1f}"{style} text-anchor="{anchor}">{escape(words)}</text>'


def axis(left: float) -> list[str]:
    """Vertical lines at the powers of ten, with their numbers below."""
    bottom = TOP + ROW * len(PATHS)
    drawn = []
    for decade in range(FIRST_DECADE, LAST_DECADE + 1):
        x = left + position(10.0**decade)
        drawn.append(f'<line class="line" x1="{x:.1f}" y1="{TOP - 6}" x2="{x:.1f}" y2="{bottom - 2}"/>')
        drawn.append(text(x, bottom + 15, f"{10**decade:,}" if decade >= 0 else f"{10.0**decade:g}", "note", "middle"))
    return drawn


def panel(left: float, head: str, machine: str, names: list[str | None]) -> list[str]:
    """The measurements of one machine."""
    measured = medians_us(machine)
    drawn = [text(left, TOP - 18, head, "head"), *axis(left)]
    for row, (path, name) in enumerate(zip(PATHS, names, strict=True)):
        y = TOP + ROW * (row + 0.5)
        css = "ours" if path.ours else "other"
        if name is None:
            drawn.append(text(left + 6, y + 4, "not measured", "note"))
            continue
        x = left + position(measured[name])
        drawn.append(f'<line class="stem {css}" x1="{left:.1f}" y1="{y:.1f}" x2="{x:.1f}" y2="{y:.1f}"/>')
        drawn.append(f'<circle class="{css}" cx="{x:.1f}" cy="{y:.1f}" r="6"/>')
        # The first copy hides the lines behind the second.
        drawn += [text(x + 11, y + 4.5, number(measured[name]), css) for css in ("halo", "")]
    return drawn


def picture() -> str:
    """The whole picture as SVG."""
    title = "Cost of one call in a compiled loop"
    drawn = [
        f'<rect class="page" x="0.5" y="0.5" width="{WIDTH - 1}" height="{HEIGHT - 1}" rx="8"/>',
        text(18, 34, title, "title"),
        text(18, 55, "Microseconds per call of a small float32 add, on a log scale. Shorter is better.", "note"),
    ]
    for row, path in enumerate(PATHS):
        css = "label ours" if path.ours else "label"
        drawn.append(text(LABELS, TOP + ROW * (row + 0.5) + 4.5, path.label, css, "end"))
    drawn += panel(LEFT, "CPU: two cores of a Xeon", "xeon-2core", [path.cpu for path in PATHS])
    drawn += panel(RIGHT, "GPU: one NVIDIA H200", "h200", [path.gpu for path in PATHS])
    drawn.append(text(18, HEIGHT - 42, "Bold, in blue: kernel-bridge.", "ours"))
    sizes = "16 elements on the CPU, 1,024 on the GPU. XLA compiles jnp.add into the loop."
    drawn.append(text(18, HEIGHT - 20, sizes, "note"))
    body = "\n".join(f"  {line}" for line in drawn)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}" viewBox="0 0 {WIDTH} {HEIGHT}" '
        f'role="img" aria-label="{title}">\n<style>{STYLE}</style>\n{body}\n</svg>\n'
    )


def main(arguments: list[str]) -> int:
    """Writes the picture; with ``--check``, says whether it is up to date."""
    if arguments == ["--check"]:
        if PICTURE.is_file() and PICTURE.read_text(encoding="utf-8") == picture():
            return 0
        print("docs/dispatch.svg is out of date. Run: python docs/pictures.py", file=sys.stderr)
        return 1
    PICTURE.write_text(picture(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
