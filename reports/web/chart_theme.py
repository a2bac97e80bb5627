"""Holds the colours and shapes of charts, on a light and on a dark page, for readers of every colour vision."""

from __future__ import annotations

from collections.abc import Iterable

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
    ("#0072b2", "#56a8e8"), ("#c4500a", "#f58b45"), ("#00815e", "#2fc79a"), ("#a8457f", "#e391c0"),
    ("#8a6d00", "#e2b93b"), ("#5b4fc7", "#a79ff5"), ("#3d6b74", "#8fc1cb"), ("#8c2d2d", "#d98a8a"),
    ("#4c7a00", "#a5cc52"), ("#7a3e9d", "#cf9bea"), ("#000088", "#ccddff"), ("#dd0055", "#ff5577"),
    ("#334400", "#ccff44"), ("#bb00ff", "#cc66ff"), ("#551100", "#ffaa99"), ("#004466", "#6699bb"),
    ("#cc00bb", "#ffbbee"), ("#002222", "#66e0e0"), ("#0000ff", "#99bbff"), ("#550044", "#ff44cc"),
    ("#7700ff", "#9988cc"), ("#880066", "#cc77aa"), ("#550088", "#ccbbdd"), ("#0066ff", "#6699ff"),
)  # fmt: skip
"""The colours of backends: first the palette of Okabe and Ito, darker, so that they keep 4.5 to 1 on white; then those
that differ most from all before, for full colour vision and for deuteranopia."""

PATHS = {
    "bar": "M-1,-0.28H1V0.28H-1Z", "circle": "M0,-1A1,1 0 1,0 0.01,-1Z", "square": "M-0.9,-0.9H0.9V0.9H-0.9Z",
    "up": "M0,-1.1L1.1,0.9H-1.1Z", "diamond": "M0,-1.2L1.2,0L0,1.2L-1.2,0Z", "down": "M0,1.1L1.1,-0.9H-1.1Z",
    "cross": "M-0.4,-1.1H0.4V-0.4H1.1V0.4H0.4V1.1H-0.4V0.4H-1.1V-0.4H-0.4Z", "right": "M1.1,0L-0.9,1.1V-1.1Z",
    "left": "M-1.1,0L0.9,1.1V-1.1Z",
}  # fmt: skip
"""The shapes as paths in a square from -1 to 1; the baseline is the bar."""

_KNOWN = (
    "numba", "numba_parallel", "warp", "warp_tile", "numba_cuda", "cuda_raw", "pallas", "numba_cuda_callable", "cupy",
    "brainevent", "numba_cuda_replay", "triton", "cutile", "numba_cuda_mlir", "tvm_ffi", "cutlass", "jax_triton",
    "mosaic_gpu", "jax_tvm_ffi", "cutile_kernel",
)  # fmt: skip
"""Backends that have the same colour on every page. The others get those that are left."""

_SHAPES = tuple(PATHS)[1:]

Mark = tuple[tuple[str, str], str]
"""How a backend is drawn: its colour on a light and on a dark page, and the path of its shape."""


def marks_of(backends: Iterable[str]) -> dict[str, Mark]:
    """Returns how each backend of a page is drawn. Up to 24 backends differ in colour, more in colour or shape."""
    names = sorted({*backends} - {BASELINE})
    places = {name: _KNOWN.index(name) for name in names if name in _KNOWN}
    free = iter([place for place in range(len(_KNOWN) + len(names)) if place not in places.values()])
    places |= {name: next(free) for name in names if name not in places}
    marks = {
        name: (SERIES[place % len(SERIES)], PATHS[_SHAPES[(place + place // len(SERIES)) % len(_SHAPES)]])
        for name, place in places.items()
    }
    return {**marks, BASELINE: (BASELINE_COLOR, PATHS["bar"])}


def dark_colors() -> str:
    """Returns the variables of the style sheet that give the colours of drawn charts on a dark page."""
    pairs = dict([*INKS.values(), *SERIES, BASELINE_COLOR])
    declared = " ".join(f"--c{light[1:]}: {dark};" for light, dark in pairs.items())
    return f"@media screen and (prefers-color-scheme: dark) {{ :root {{ {declared} }} }}"
