"""Writes the times of a run into a folder of results of asv, airspeed velocity, which `asv show` and `publish` read."""

import hashlib
import itertools
import json
import math
import re
import statistics
from collections.abc import Iterable, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from reports.errors import ReportError
from reports.records.cell import Cell, short_dtype
from reports.records.header import Run
from reports.records.quantiles import quantile
from reports.records.record import Record, last_by_cell

RESULTS, MACHINE, BENCHMARKS = 2, 1, 2
"""The versions of asv's files that are written."""

_COLUMNS = (
    "result", "params", "version", "started_at", "duration", "stats_ci_99_a", "stats_ci_99_b", "stats_q_25",
    "stats_q_75", "stats_number", "stats_repeat", "samples",
)  # fmt: skip

_PARAMETERS = ("backend", "dtype", "size")


def write_asv_results(records: Iterable[Record], folder: str | Path) -> None:
    """Adds a run to a folder of results: its times, the machine, and the benchmarks that it timed.

    A benchmark is an operator in one mode on one platform, with the parameters backend, dtype and size; results are
    seconds per call, and the samples are the medians of the processes. asv names results by their commit: a second run
    of a commit replaces the first one. The date of the results is the start of the run.

    Args:
        records: The records of one run.
        folder: The folder `results_dir` of asv's configuration.

    Raises:
        ReportError: The run has no commit, uncommitted changes or no times, or the folder cannot be written.
    """
    counting = [record for record in last_by_cell(records) if record.timing or record.status.failed]
    timed = [record for record in counting if record.timing]
    if not timed:
        raise ReportError(f"--export {folder}: this run has no times, and asv wants times. Export a run of bench.")
    run = timed[-1].run
    if not run.source.commit or run.source.dirty:
        said = "had uncommitted changes" if run.source.commit else "has no git commit"
        raise ReportError(f"--export {folder}: the code of this run {said}, and asv files results by their commit.")
    benchmarks: dict[str, list[Record]] = {}
    for record in counting:
        benchmarks.setdefault(_name(record.cell), []).append(record)
    benchmarks = {name: own for name, own in benchmarks.items() if any(record.timing for record in own)}
    machine = _machine(run)
    place = Path(folder)
    try:
        own_place = place / machine["machine"]
        own_place.mkdir(parents=True, exist_ok=True)
        known = _read(place / "benchmarks.json")
        described = {name: _benchmark(name, own, known.get(name)) for name, own in benchmarks.items()}
        _write(place / "benchmarks.json", {**known, **described, "version": BENCHMARKS})
        _write(own_place / "machine.json", {**machine, "version": MACHINE})
        results = _results(run, benchmarks, machine)
        _write(own_place / f"{_word(run.source.commit)[:8]}-{results['env_name']}.json", results)
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else f"{type(error).__name__}: {error}"
        raise ReportError(f"--export {folder}: cannot be written: {why}.") from error


def _results(run: Run, benchmarks: dict[str, list[Record]], machine: dict[str, str]) -> dict[str, Any]:
    date = _milliseconds(run.started)
    python = run.versions.get("python", "3")
    environment = {name: run.versions[name] for name in ("jax", "numba", "warp-lang") if name in run.versions}
    return {
        "version": RESULTS,
        "commit_hash": run.source.commit,
        "env_name": _word("-".join(itertools.chain.from_iterable(environment.items())) or "kernel-bridge"),
        "date": date,
        "params": {**machine, "python": python, **environment},
        "python": python,
        "requirements": environment,
        "env_vars": {},
        "result_columns": list(_COLUMNS),
        "results": {name: _row(own, date) for name, own in benchmarks.items()},
        "durations": {},
    }


def _row(own: Sequence[Record], date: int) -> list[Any]:
    """Returns the columns of one benchmark: lists over all combinations of its parameters."""
    parameters = _parameters(own)
    by_place = {_place(record.cell): record for record in own}
    records = [by_place.get(place) for place in itertools.product(*parameters)]
    # asv shows a combination that does not exist as NaN, and one that failed as null.
    results = [math.nan if one is None else _seconds(one) for one in records]
    samples = [[each * 1e-9 for each in one.timing.medians_ns] if one and one.timing else None for one in records]
    return [
        results,
        parameters,
        _version(own),
        date,
        None,
        [_interval(each)[0] if each else None for each in samples],
        [_interval(each)[1] if each else None for each in samples],
        [quantile(each, 0.25) if each else None for each in samples],
        [quantile(each, 0.75) if each else None for each in samples],
        [one.timing.loops if one and one.timing else None for one in records],
        [len(each) if each else None for each in samples],
        samples,
    ]


def _interval(samples: Sequence[float]) -> tuple[float, float]:
    """Returns the ends of a 99 % interval of the time: Student's t across processes; infinite for a single one."""
    from scipy.special import stdtrit

    if len(samples) < 2:
        return -math.inf, math.inf
    half = float(stdtrit(len(samples) - 1, 0.995)) * statistics.stdev(samples) / math.sqrt(len(samples))
    middle = statistics.fmean(samples)
    return middle - half, middle + half


def _benchmark(name: str, own: Sequence[Record], known: dict[str, Any] | None) -> dict[str, Any]:
    """Returns the description of a benchmark, with all values of its parameters that any run had."""
    parameters = _parameters(own)
    version = _version(own)
    if known and known.get("version") == version:
        parameters = [_united(one, two) for one, two in zip(known["params"], parameters, strict=True)]
    return {
        "name": name, "type": "time", "unit": "seconds", "code": name, "version": version, "timeout": 60.0,
        "param_names": list(_PARAMETERS), "params": parameters, "number": 0, "repeat": 0, "rounds": 1,
        "min_run_count": 1, "sample_time": 0.01, "warmup_time": -1, "pretty_name": name,
    }  # fmt: skip


def _parameters(own: Sequence[Record]) -> list[list[str]]:
    """Returns the values of each parameter as Python writes them, which asv wants."""
    places = sorted({(record.cell.backend, short_dtype(record.cell.dtype), record.cell.size) for record in own})
    return [_united([], [repr(place[number]) for place in places]) for number in range(len(_PARAMETERS))]


def _united(one: Sequence[str], other: Sequence[str]) -> list[str]:
    both = dict.fromkeys([*one, *other])
    return sorted(both, key=lambda text: (int(text), text) if text.isdigit() else (0, text))


def _place(cell: Cell) -> tuple[str, ...]:
    return repr(cell.backend), repr(short_dtype(cell.dtype)), repr(cell.size)


def _seconds(record: Record) -> float | None:
    return record.timing.median_ns * 1e-9 if record.timing else None


def _version(own: Sequence[Record]) -> str:
    """Returns what makes results of a benchmark comparable: the version of the operator, method and caches."""
    facts = sorted({(one.cell.operator_version, one.timing.method, one.timing.cache) for one in own if one.timing})
    return hashlib.sha256(repr(facts).encode()).hexdigest()


def _name(cell: Cell) -> str:
    variant = "_".join(f"{name}_{value}" for name, value in sorted(cell.params.items()))
    return ".".join(filter(None, (cell.platform, _word(cell.operator), _word(cell.mode), _word(variant))))


def _word(text: str) -> str:
    """Returns a text as part of a file name: letters, digits, dots, dashes and underscores; never empty dots alone."""
    return re.sub(r"[^A-Za-z0-9_.-]", "_", text).strip(".")[:100]


def _machine(run: Run) -> dict[str, str]:
    host = run.host
    name = _word(host.machine or "") or "unknown"
    return {
        "machine": f"{name}-{run.device.platform}",
        "os": host.os,
        "arch": run.device.kind,
        "cpu": host.cpu,
        "num_cpu": str(host.cores),
        "ram": str(host.memory_bytes or ""),
    }


def _milliseconds(text: str) -> int:
    return int(datetime.fromisoformat(text).timestamp() * 1000)


def _read(path: Path) -> dict[str, Any]:
    """Returns the benchmarks of a folder; none if they have another version."""
    if not path.exists():
        return {}
    found = json.loads(path.read_text(encoding="utf-8"))
    if not isinstance(found, dict) or found.pop("version", None) != BENCHMARKS:
        raise ValueError(f"{path.name} has another version than {BENCHMARKS}; name a new folder")
    return found


def _write(path: Path, data: dict[str, Any]) -> None:
    path.write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")
