"""Rows of a frame in, the sentences under a table out: what ran, where, how, and what did not pass."""

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from reports.render.units import count_text, percent_text, rate_text

FrameRow = dict[str, Any]

OVER = 1.05
"""A share of measured bandwidth above this is flagged: 5 % allows for the noise of that measurement."""

_REASON_LENGTH = 240
_IDS_SHOWN = 3


def run_notes(rows: Sequence[FrameRow]) -> list[str]:
    """Returns run, device, host, versions and flags; where rows differ, each distinct one."""
    return [
        _distinct("run", rows, _run_text),
        _distinct("device", rows, _device_text),
        _distinct("host", rows, _host_text),
        _distinct("versions", rows, lambda row: _pairs(row["versions"], " ")),
        _distinct("flags", rows, lambda row: _pairs(row["flags"], "=") or "none set"),
    ]


def device_name(row: FrameRow) -> str:
    """Returns the platform and what ran its cells: the CPU's model, or the device's kind."""
    return f"{row['platform']}: {row['host_cpu'] if row['platform'] == 'cpu' else row['device_kind']}"


def count_note(rows: Sequence[FrameRow]) -> str:
    """Returns how many cells passed, failed and were skipped."""
    counts = outcome_counts(row["status"] for row in rows)
    return "cells: " + ", ".join(f"{count_text(count)} {name}" for name, count in counts.items())


def outcome_counts(statuses: Iterable[str]) -> dict[str, int]:
    """Returns the number of statuses that are `passed`, `failed` and `skipped`."""
    outcomes = Counter({"PASSED": "passed", "SKIPPED": "skipped"}.get(status, "failed") for status in statuses)
    return {name: outcomes[name] for name in ("passed", "failed", "skipped")}


def method_notes(rows: Sequence[FrameRow]) -> list[str]:
    """Returns how times were taken, why sampling stopped, and how certain the medians are."""
    timed = [row for row in rows if is_timed(row)]
    if not timed:
        return []
    methods = Counter(f"{row['method']}, cache {row['cache']}" for row in timed)
    stops = Counter(str(row["stop"]) for row in timed)
    worst = max(timed, key=lambda row: float(row["relative_error"]))
    fewest, most = (int(limit(row["samples"] for row in timed)) for limit in (min, max))
    discarded = int(sum(row["discarded"] for row in timed))
    notes = [
        f"method: {_counted(methods)}; {_span(fewest, most)} samples per cell; stopped on {_counted(stops)}",
        f"relative error of the median (95 % interval): at most {percent_text(worst['relative_error'])} %"
        f" ({worst['cell_id']})",
    ]
    if discarded:
        notes.append(f"discarded because the device throttled: {count_text(discarded)} samples")
    return notes


def roofs_text(rows: Sequence[FrameRow]) -> str:
    """Returns the bandwidths that times are compared with, each once: `copy, memory 9 GB/s (2 cells); read, ...`."""
    rates: dict[str, list[float]] = defaultdict(list)
    for row in rows:
        if row["bandwidth_share"] == row["bandwidth_share"]:
            rates[row["bandwidth_limit_kind"]].append(float(row["bandwidth_limit"]))
    texts = []
    for kind in sorted(rates):
        # A resumed run measures again.
        ends = dict.fromkeys(rate_text(limit(rates[kind]), "B/s") for limit in (min, max))
        cells = f" ({cells_text(len(rates[kind]))})" if len(rates) > 1 else ""
        texts.append(f"{kind} {' to '.join(ends)}{cells}")
    return "; ".join(texts)


def overrun_notes(rows: Sequence[FrameRow]) -> list[str]:
    """Returns a warning for cells above the measured bandwidth, which memory cannot give."""
    notes = []
    over = [row for row in rows if row["bandwidth_share"] > OVER]
    warm = [str(row["cell_id"]) for row in over if not is_impossible(row)]
    cold = [str(row["cell_id"]) for row in over if is_impossible(row)]
    if cold:
        notes.append(
            f"! {_cells(cold)} above the measured bandwidth: a bug in the harness or the declared"
            " bytes; none of them is called fastest"
        )
    if warm:
        notes.append(
            f"! {_cells(warm)} above the measured bandwidth, caches hot: data that never left a cache,"
            " or a bug in the harness or the declared bytes"
        )
    return notes


def reason_notes(rows: Sequence[FrameRow]) -> list[str]:
    """Returns why cells failed, then why cells were skipped; one note per status, backend and reason."""
    reasons: dict[tuple[bool, str, str, str], list[str]] = defaultdict(list)
    for row in rows:
        if row["status"] != "PASSED":
            key = (row["status"] == "SKIPPED", row["status"], row["backend"], str(row["reason"]))
            reasons[key].append(str(row["cell_id"]))
    return [
        f"{status} {backend}: {shorten(reason)} ({_cells(ids)})"
        for (_, status, backend, reason), ids in sorted(reasons.items())
    ]


def shorten(reason: str) -> str:
    """Returns a reason on one line, its end left out if it is long."""
    line = " ".join(reason.split())
    return line if len(line) <= _REASON_LENGTH else line[:_REASON_LENGTH].rstrip() + "…"


def cells_text(count: int) -> str:
    """Returns `1 cell` or `12 cells`."""
    return f"{count_text(count)} cell" + ("s" if count != 1 else "")


def is_timed(row: FrameRow) -> bool:
    """Returns whether a row has a time; NaN is unequal to itself."""
    return bool(row["median_ns"] == row["median_ns"])


def is_impossible(row: FrameRow) -> bool:
    """Returns whether a time claims more bandwidth than memory has; with hot caches, a cache may give it."""
    return bool(row["bandwidth_share"] > OVER and row["cache"] != "hot")


def _run_text(row: FrameRow) -> str:
    commit = f"commit {row['commit'][:12]}" if _known(row["commit"]) else "commit unknown"
    dirty = {True: " with uncommitted changes", False: ""}.get(row["dirty"], ", changes unknown")
    return f"{row['run_id']}, profile {row['profile']}, started {row['started']}, {commit}{dirty}"


def _device_text(row: FrameRow) -> str:
    parts = [f"{row['device_kind']} ({row['platform']}:{row['ordinal']})"]
    parts += [f"{name} {row[key]}" for name, key in (("driver", "driver"), ("CUDA", "cuda")) if _known(row[key])]
    if _known(row["copy_bandwidth"]):
        parts.append(f"copy bandwidth {rate_text(row['copy_bandwidth'], 'B/s')} measured")
    if _known(row["peak_flops"]):
        parts.append(f"peak {rate_text(row['peak_flops'], 'FLOP/s')} measured")
    return ", ".join(parts)


def _host_text(row: FrameRow) -> str:
    usable = len(json.loads(row["affinity"]))
    threads = _pairs(row["threads"], " ")
    cores = f"{row['cores']} cores" + (f", {usable} of them usable" if usable != row["cores"] else "")
    return f"{row['host_cpu']}, {cores}, threads: {threads or 'not recorded'}, {row['os']}"


def _distinct(name: str, rows: Sequence[FrameRow], text: Callable[[FrameRow], str]) -> str:
    return f"{name}: " + "; ".join(dict.fromkeys(text(row) for row in rows))


def _pairs(mapping: str, between: str) -> str:
    entries: dict[str, Any] = json.loads(mapping)
    return ", ".join(f"{name}{between}{value}" for name, value in entries.items() if value is not None)


def _cells(ids: Sequence[str]) -> str:
    shown = ", ".join(ids[:_IDS_SHOWN]) + (", …" if len(ids) > _IDS_SHOWN else "")
    return shown if len(ids) == 1 else f"{cells_text(len(ids))}: {shown}"


def _counted(counts: Counter[str]) -> str:
    if len(counts) == 1:
        return next(iter(counts))
    return "; ".join(f"{name} ({cells_text(count)})" for name, count in counts.most_common())


def _span(low: int, high: int) -> str:
    return count_text(low) if low == high else f"{count_text(low)} to {count_text(high)}"


def _known(value: Any) -> bool:
    return value is not None and value == value
