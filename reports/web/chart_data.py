"""Reads the numbers of the charts from rows: times in seconds, and the words beside each point."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

from reports.pages.rows import BASELINE, CellRow
from reports.pages.spread import Spread, round_ratios
from reports.render.units import DASH, count_text, interval_text, percent_text, ratio_text, time_range_text, time_text
from reports.render.visible import visible
from reports.web.kernel_grid import KernelSummary

Point = dict[str, Any]

OURS = "kernel-bridge"
"""The title of a way of the dispatch benchmark may name this project. A way with targets belongs to it, too."""


def ratio_points(found: Iterable[KernelSummary]) -> list[Point]:
    """Returns a point for each kernel with a ratio to the baseline."""
    points = []
    for kernel in found:
        mean = kernel.ratio
        if kernel.backend == BASELINE or mean.mean is None:
            continue
        text, interval = ratio_text(mean.mean), interval_text(mean.low, mean.high)
        points.append(
            {
                "label": visible(kernel.label), "backend": visible(kernel.backend), "ratio": short_number(mean.mean),
                "low": short_number(mean.low), "high": short_number(mean.high), "cells": count_text(mean.count),
                "ratio_text": text, "interval_text": interval,
                "said": visible(f"{kernel.label}, {kernel.backend}: {text}, interval {interval}"),
            }
        )  # fmt: skip
    return points


def roof_points(rows: Sequence[CellRow]) -> list[Point]:
    """Returns a point for each timed cell with operations and bytes, and the two ends of each roof; else nothing."""
    points: list[Point] = []
    roofs: dict[str, float] = {}
    for row in rows:
        record = row.record
        if row.timing is None or not record.flops or not record.bytes or record.flop_rate is None:
            continue
        if record.bandwidth_limit is not None and record.bandwidth_limit_kind is not None:
            # Reads, copies and triads of one memory differ less than memories do: one line for each memory.
            memory = record.bandwidth_limit_kind.rpartition(", ")[2]
            roofs[memory] = max(roofs.get(memory, 0.0), record.bandwidth_limit)
        share = record.bandwidth_share
        points.append(
            {
                "line": False, "label": visible(row.cell.operator), "backend": visible(row.cell.backend),
                "intensity": short_number(record.flops / record.bytes), "rate": short_number(record.flop_rate),
                "size_text": count_text(row.cell.size), "time_text": time_text(row.timing.median_ns),
                "share_text": "" if share is None else f"{percent_text(share)}%",
                "roof": visible(record.bandwidth_limit_kind or ""), "said": visible(row.cell.id),
            }
        )  # fmt: skip
    if not points:
        return []
    ends = min(point["intensity"] for point in points) / 1.5, max(point["intensity"] for point in points) * 1.5
    lines = []
    for number, (name, rate) in enumerate(sorted(roofs.items())):
        # The names stand at different places of their lines, which can be near each other.
        middle = ends[1] / (ends[1] / ends[0]) ** (0.02 + 0.1 * number)
        for end in (*ends, middle):
            point = {
                "line": True,
                "roof": visible(name),
                "intensity": short_number(end),
                "rate": short_number(rate * end),
            }
            lines.append(point | ({"name": True} if end is middle else {}))
    return [*points, *lines]


def call_points(rows: Sequence[CellRow]) -> dict[str, list[Point]]:
    """Returns, by the title of a situation of the dispatch benchmark, a point for each way to call the kernel."""
    modes: dict[str, list[Point]] = {}
    aimed = {row.cell.backend for row in rows if row.record.dispatch and row.record.dispatch.limits}
    samples = {(row.cell.mode, row.cell.backend): row.timing.samples_ns for row in rows if row.timing}
    for row in rows:
        facts = row.record.dispatch
        if row.timing is None or facts is None:
            continue
        spread = Spread.of(row.timing.samples_ns)
        other = samples.get((row.cell.mode, facts.reference))
        ratio = Spread.of(round_ratios(row.timing.samples_ns, other)).median if other else None
        text = time_text(spread.median)
        span = f"{time_range_text(spread.p20, spread.p80, spread.median)} {text.split()[-1]}"
        modes.setdefault(visible(facts.mode_title), []).append(
            {
                "label": visible(facts.title), "ours": OURS in facts.title or row.cell.backend in aimed,
                "time_s": short_number(spread.median * 1e-9), "low_s": short_number(spread.p20 * 1e-9),
                "high_s": short_number(spread.p80 * 1e-9), "time_text": text, "range_text": span,
                "ratio_text": f"{ratio_text(ratio)} {DASH} {visible(facts.reference)}" if ratio else "",
                "said": visible(f"{facts.title}: {text}, {span}"),
            }
        )  # fmt: skip
    return modes


def short_number(value: float | None) -> float | None:
    """Returns a number with five significant digits, enough for a picture; None where it is not finite."""
    return None if value is None or not math.isfinite(value) else float(f"{value:.5g}")
