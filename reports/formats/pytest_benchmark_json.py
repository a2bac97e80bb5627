"""Writes the times of a run as the JSON of pytest-benchmark, which its `compare` and many services read."""

from collections.abc import Iterable
from typing import Any

from reports.pages.rows import CellRow, cell_rows
from reports.records.header import Run
from reports.records.measurements import Timing
from reports.records.record import Record


def pytest_benchmark_document(records: Iterable[Record]) -> dict[str, Any]:
    """Returns the document of the timed cells of a run.

    Times are in seconds. A *round* is a process: its value is the median of the process, since samples of one process
    are no repetitions of each other. With a single process, a round is a sample. A cell without a time is not there.

    Args:
        records: The records of one run.
    """
    rows = cell_rows(records)
    run = rows[-1].run
    return {
        "machine_info": _machine(run),
        "commit_info": _commit(run),
        "benchmarks": [_benchmark(row, row.timing) for row in rows if row.timing is not None],
        "datetime": run.started,
        "version": run.versions.get("pytest-benchmark", "5.1.0"),
    }


def _benchmark(row: CellRow, timing: Timing) -> dict[str, Any]:
    cell = row.cell
    variant = "".join(f"-{name}={value}" for name, value in sorted(cell.params.items()))
    params = {"backend": cell.backend, "dtype": cell.dtype, "size": cell.size, **cell.params}
    extra = {
        "mode": cell.mode, "platform": cell.platform, "method": timing.method, "cache": timing.cache,
        "ratio": row.ratio, "reference": row.reference, "run_id": row.run.run_id,
    }  # fmt: skip
    return {
        "group": f"{cell.operator}-{cell.dtype}-{cell.size}-{cell.platform}-{cell.mode}{variant}",
        "name": cell.id + variant,
        "fullname": f"kernel-bridge::{cell.id}{variant}",
        "params": params,
        "param": cell.id + variant,
        "extra_info": extra,
        "options": {
            "disable_gc": False, "timer": timing.method, "min_rounds": 1, "max_time": 1.0, "min_time": 0.0,
            "warmup": True,
        },
        "stats": _statistics(timing),
    }  # fmt: skip


def _statistics(timing: Timing) -> dict[str, Any]:
    """Returns the numbers of pytest-benchmark, made by its own code."""
    from pytest_benchmark.stats import Stats

    found = Stats()  # type: ignore[no-untyped-call, unused-ignore]
    for each in timing.medians_ns if len(timing.processes) > 1 else timing.samples_ns:
        found.update(each * 1e-9)  # type: ignore[no-untyped-call, unused-ignore]
    numbers: dict[str, Any] = found.as_dict()  # type: ignore[no-untyped-call, unused-ignore]
    return {**numbers, "data": list(found.data), "iterations": timing.loops}


def _machine(run: Run) -> dict[str, Any]:
    host = run.host
    return {
        "node": host.machine or "unknown",
        "processor": run.device.kind,
        "machine": run.device.platform,
        "python_implementation": "CPython",
        "python_version": run.versions.get("python", "unknown"),
        "system": host.os,
        "release": host.os,
        "cpu": {"brand_raw": host.cpu, "count": host.cores},
    }


def _commit(run: Run) -> dict[str, Any]:
    return {
        "id": run.source.commit or "unversioned", "dirty": bool(run.source.dirty), "project": "kernel-bridge",
        "time": run.started, "author_time": run.started, "branch": "(unknown)",
    }  # fmt: skip
