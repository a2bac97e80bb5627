"""Builds small valid records for tests. A test passes only the fields that matter to it."""

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from reports import (
    Accuracy,
    Cell,
    CellResult,
    Device,
    Host,
    ProcessTimes,
    Record,
    Run,
    RunWriter,
    Source,
    Stages,
    Status,
    Timing,
    load_run,
)
from reports.records.boundaries import Begin, End
from reports.records.codec import encode
from reports.records.record import SCHEMA

GPU = Device(platform="cuda", kind="NVIDIA H200", uuid="GPU-1", driver="570.86", cuda="13.0")
CPU = Device(platform="cpu", kind="cpu")
HOST = Host(cpu="Xeon", cores=4, affinity=[0, 1], threads={"numba": 2}, os="Linux")
FLAGS: dict[str, str | bool | int | None] = {"x64": False, "XLA_FLAGS": None}


def make_run(**changes: Any) -> Run:
    fields: dict[str, Any] = {
        "run_id": "20261120T190102-3f2a",
        "started": "2026-11-20T19:01:02+00:00",
        "profile": "quick",
        "source": Source(commit="0123456789abcdef", dirty=False),
        "host": HOST,
        "device": CPU,
        "versions": {"jax": "0.10.2"},
        "flags": FLAGS,
    }
    return Run(**{**fields, **changes})


def make_cell(**changes: Any) -> Cell:
    fields: dict[str, Any] = {
        "operator": "lif_step",
        "operator_version": 1,
        "backend": "numba",
        "platform": "cpu",
        "dtype": "float32",
        "size": 4096,
    }
    return Cell(**{**fields, **changes})


ACROSS = (1.01, 0.98, 1, 0.99, 1.02)
"""The medians of the processes of a timing, divided by their median."""


def make_timing(median_ns: float = 1000.0, across: Sequence[float] = ACROSS, **changes: Any) -> Timing:
    """A timing with a process for each number in `across`; with one process if `changes` has a field of it."""
    own = {name: changes.pop(name) for name in ProcessTimes.__struct_fields__ if name in changes}
    fields: dict[str, Any] = {"method": "wall", "cache": "cold", "stop": "converged"}
    if "processes" not in changes:
        samples = [median_ns * factor for factor in (0.98, 0.99, 1, 1, 1, 1.01, 1.02)]
        fields["processes"] = [
            ProcessTimes(**{"samples_ns": tuple(one * sample for sample in samples), **own})
            for one in ([1.0] if own else across)
        ]
    return Timing(**{**fields, **changes})


def make_record(
    cell: Cell | None = None,
    median_ns: float | None = 1000.0,
    run: Run | None = None,
    **changes: Any,
) -> Record:
    """A record that passed in `median_ns` (None: untimed), or, given another status, one that did not."""
    status = changes.get("status", Status.PASSED)
    passed = status is Status.PASSED
    fields: dict[str, Any] = {
        "schema": SCHEMA,
        "index": 0,
        "time": "2026-11-20T19:01:03+00:00",
        "run": run or make_run(),
        "cell": cell or make_cell(),
        "shapes": [[4096]],
        "dtypes": ["float32"],
        "seed": 0,
        "status": status,
        "reason": None if passed else "because",
        "accuracy": Accuracy(max_ulp=1.0, budget_used=0.25, reference_budget_used=0.125) if passed else None,
        "timing": make_timing(median_ns) if passed and median_ns is not None else None,
        "stages": Stages(trace_ms=1.0, lower_ms=2.0, compile_ms=30.0) if passed else None,
        "bytes": 4000,
        "bandwidth_limit": 1e10,
        "bandwidth_limit_kind": "copy",
    }
    return Record(**{**fields, **changes})


def make_result(*given: Any, **changes: Any) -> CellResult:
    """What a session knows of a cell before it is recorded; arguments as for :func:`make_record`."""
    record = make_record(*given, **changes)
    return CellResult(**{name: getattr(record, name) for name in CellResult.__struct_fields__})


def make_pair(jnp_ns: float, backend_ns: float, backend: str = "numba", **cell: Any) -> list[Record]:
    """The same cell on `jnp` and on another backend."""
    return [
        make_record(make_cell(backend="jnp", **cell), jnp_ns),
        make_record(make_cell(backend=backend, **cell), backend_ns),
    ]


def whole(records: Sequence[Record], lines: Sequence[bytes] = (), optional: Sequence[str] = ()) -> bytes:
    """The bytes of a complete run of these records.

    `lines` replaces how they are written; the cells of the backends `optional` may be skipped.
    """
    first = records[0]
    cells = [record.cell for record in records]
    begin = Begin(
        schema=SCHEMA, time=first.time, run=first.run, cells=[cell for cell in cells if cell.backend not in optional],
        optional=[cell for cell in cells if cell.backend in optional],
    )  # fmt: skip
    numbered = [msgspec.structs.replace(record, index=index) for index, record in enumerate(records)]
    data = b"".join(line + b"\n" for line in [encode(begin), *(lines or map(encode, numbered))])
    end = End(
        schema=SCHEMA, time=first.time, run_id=first.run.run_id, count=len(records), seconds=1.5, exit=0,
        statuses=dict(Counter(record.status for record in records)), digest=hashlib.sha256(data).hexdigest(),
    )  # fmt: skip
    return data + encode(end) + b"\n"


@contextmanager
def begun(
    path: Path, run: Run | None = None, cells: Iterable[Cell] = (), ends: int | None = None
) -> Iterator[RunWriter]:
    """A writer whose session has begun with these cells, or cells of 500 sizes; what has a record is left out.

    With `ends`, the session comes to its end with this exit code.
    """
    announced = [*cells] or [make_cell(size=size) for size in (*range(1, 500), 4096)]
    if path.exists():
        done = {record.cell.key for record in load_run(path).records}
        announced = [cell for cell in announced if cell.key not in done]
    with RunWriter(path, run or make_run()) as writer:
        writer.begin(announced)
        yield writer
        if ends is not None:
            writer.end(ends)
