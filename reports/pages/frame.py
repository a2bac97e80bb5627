"""Records in, one tidy pandas DataFrame out: a row per cell, a column per fact."""

import json
import math
from collections.abc import Iterable, Sequence
from typing import Any

import pandas as pd

from reports.records.record import Record, last_by_cell

BASELINE = "jnp"
"""The backend that ratios refer to: XLA's own implementation."""

TEXT_COLUMNS = (
    *(
        "run_id",
        "started",
        "profile",
        "time",
        "cell_id",
        "operator",
        "backend",
        "mode",
        "platform",
        "dtype",
        "params",
    ),
    *("shapes", "dtypes", "status", "reason", "method", "cache", "stop"),
    *("commit", "device_kind", "device_uuid", "driver", "cuda", "host_cpu", "os", "affinity"),
    *("threads", "versions", "flags", "bandwidth_limit_kind"),
)
NUMBER_COLUMNS = (
    *("max_ulp", "budget_used", "reference_budget_used"),
    *("samples", "loops", "discarded", "median_ns", "p20_ns", "p80_ns", "relative_error"),
    *("trace_ms", "lower_ms", "compile_ms", "first_call_ms"),
    *("peak_memory_bytes", "bytes", "flops", "bandwidth", "bandwidth_share", "flop_rate", "flops_share"),
    *("bandwidth_limit", "copy_bandwidth", "peak_flops"),
)
INTEGER_COLUMNS = ("index", "operator_version", "size", "seed", "ordinal", "cores")
COLUMNS = (*INTEGER_COLUMNS, *TEXT_COLUMNS, "dirty", *NUMBER_COLUMNS)


def to_frame(records: Iterable[Record]) -> pd.DataFrame:
    """Returns one row per run and cell, in the order recorded.

    A cell's last record wins, since a resumed run may retry. A failed or skipped cell is a row like any
    other, its times NaN, never zero.

    Columns:
        Identity: run_id, index, cell_id, operator, operator_version, backend, mode, platform, dtype, size,
            seed; as JSON text params, shapes, dtypes.
        Outcome: status, reason, max_ulp (ULP); as shares of the error budget, of which 1.0 is the limit,
            budget_used and reference_budget_used.
        Timing: method, cache, stop, samples, loops, discarded; in ns per call median_ns, p20_ns, p80_ns;
            relative_error (of the median).
        Stages: trace_ms, lower_ms, compile_ms, first_call_ms.
        Work: bytes, flops, peak_memory_bytes; bandwidth (B/s) and flop_rate (1/s), and each as a share of
            what was measured in the same run: bandwidth_share, flops_share. The bandwidth measured is
            bandwidth_limit (B/s), bandwidth_limit_kind says of what: `copy` where the run's copy_bandwidth serves.
        Run: started, profile, time, commit, dirty, device_kind, device_uuid, ordinal, driver, cuda, os,
            host_cpu, cores, copy_bandwidth (B/s), peak_flops (1/s); as JSON text affinity, threads, versions,
            flags.

    Missing text is None or NaN, a missing number NaN.
    """
    rows = [_row(record) for record in last_by_cell(records)]
    frame = pd.DataFrame(rows, columns=list(COLUMNS))
    types = dict.fromkeys(NUMBER_COLUMNS, "float64") | dict.fromkeys(INTEGER_COLUMNS, "int64")
    return frame.astype({**types, **dict.fromkeys((*TEXT_COLUMNS, "dirty"), "object")})


def with_ratio(frame: pd.DataFrame, baseline: str = BASELINE) -> pd.DataFrame:
    """Returns the frame with a column `ratio`: the cell's median over the baseline backend's.

    The baseline's cell is that of the same run, operator and version, mode, platform, dtype, size,
    parameters, shapes and seed, timed by the same method with the same cache state. Where there is none
    that passed, or the cell itself did not pass, the ratio is NaN. Above 1 means slower than the baseline.
    """
    cell = ["operator", "operator_version", "mode", "platform", "dtype", "size", "params"]
    columns = ["run_id", *cell, "shapes", "seed", "method", "cache"]
    keys = list(frame[columns].itertuples(index=False, name=None))
    medians = list(frame["median_ns"])
    # What did not pass has the median NaN, which makes its ratios, and those to it, NaN.
    base = {
        key: median for key, backend, median in zip(keys, frame["backend"], medians, strict=True) if backend == baseline
    }
    ratios = [median / base.get(key, math.nan) for key, median in zip(keys, medians, strict=True)]
    return frame.assign(ratio=pd.Series(ratios, index=frame.index, dtype="float64"))


def by_run_and_platform(frame: pd.DataFrame) -> list[list[dict[str, Any]]]:
    """Returns the rows of each run and platform, as mappings from column to value."""
    parts: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for row in frame.to_dict("records"):
        named = {str(name): value for name, value in row.items()}
        parts.setdefault((named["run_id"], named["platform"]), []).append(named)
    return [parts[key] for key in sorted(parts)]


def _row(record: Record) -> dict[str, Any]:
    run, cell, device, host = record.run, record.cell, record.run.device, record.run.host
    row: dict[str, Any] = {
        "index": record.index,
        "run_id": run.run_id,
        "started": run.started,
        "profile": run.profile,
        "time": record.time,
        "cell_id": cell.id,
        "operator": cell.operator,
        "operator_version": cell.operator_version,
        "backend": cell.backend,
        "mode": cell.mode,
        "platform": cell.platform,
        "dtype": cell.dtype,
        "size": cell.size,
        "seed": record.seed,
        "params": cell.params_text,
        "shapes": _text(record.shapes),
        "dtypes": _text(record.dtypes),
        "status": str(record.status),
        "reason": record.reason,
        "commit": run.source.commit,
        "dirty": run.source.dirty,
        "device_kind": device.kind,
        "device_uuid": device.uuid,
        "ordinal": device.ordinal,
        "driver": device.driver,
        "cuda": device.cuda,
        "host_cpu": host.cpu,
        "cores": host.cores,
        "os": host.os,
        "affinity": _text(host.affinity),
        "threads": _text(host.threads),
        "versions": _text(run.versions),
        "flags": _text(run.flags),
        "copy_bandwidth": run.copy_bandwidth,
        "peak_flops": run.peak_flops,
        "peak_memory_bytes": record.peak_memory_bytes,
        "bytes": record.bytes,
        "flops": record.flops,
        "bandwidth": record.bandwidth,
        "bandwidth_share": record.bandwidth_share,
        "bandwidth_limit": record.roof,
        "bandwidth_limit_kind": record.bandwidth_limit_kind or (None if record.roof is None else "copy"),
        "flop_rate": record.flop_rate,
        "flops_share": record.flops_share,
    }
    if record.accuracy is not None:
        row |= _take(record.accuracy, "max_ulp", "budget_used", "reference_budget_used")
    if record.stages is not None:
        row |= _take(record.stages, "trace_ms", "lower_ms", "compile_ms", "first_call_ms")
    if record.timing is not None:
        row |= _take(record.timing, "method", "cache", "stop", "loops", "discarded")
        row |= _take(record.timing, "median_ns", "p20_ns", "p80_ns", "relative_error")
        row["samples"] = len(record.timing.samples_ns)
    return row


def _take(part: object, *names: str) -> dict[str, Any]:
    return {name: getattr(part, name) for name in names}


def _text(value: Sequence[Any] | dict[str, Any]) -> str:
    return json.dumps(value, sort_keys=isinstance(value, dict))
