"""Builds runs for the tests of the page: of every kind and with hostile names."""

from collections.abc import Sequence
from itertools import product
from pathlib import Path

from reports import Record, Run, RunFile, Source, Status, load_run
from reports.web.page_file import page_text
from suites.unit.reports.builders import make_cell, make_record, make_run, whole

NASTY = (
    "</script><script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "' onmouseover='alert(1)",
    "<!--<script>",
    "javascript:alert(1)",
    "\u202egnp.exe\u0000\u0007",
    "&lt;b&gt; &amp; ]]>",
    "{{constructor.constructor('alert(1)')()}}",
    "\u2028\u2029\\u003c",
    "a" * 300,
)
"""Names that break pages which take data for markup, script, style or a template."""


def saved(path: Path, records: Sequence[Record]) -> RunFile:
    """A complete run of these records, written and read."""
    path.write_bytes(whole(records))
    return load_run(path)


def page_of_runs(*runs: RunFile) -> str:
    """The page of whole runs."""
    return page_text([(run, run.records) for run in runs])


def timed_records(run: Run, operators: Sequence[str] = ("add", "softmax"), slower: float = 1.0) -> list[Record]:
    """Cells of some operators, three backends, two dtypes and three sizes; `slower` multiplies the times of warp."""
    found, factors = [], {"jnp": 1.0, "numba": 0.6, "warp": 2.5 * slower}
    for operator, dtype, size, backend in product(operators, ("float32", "float64"), (1024, 65536, 1048576), factors):
        cell = make_cell(operator=operator, backend=backend, dtype=dtype, size=size, platform=run.device.platform)
        time = (800 + size * 0.4) * factors[backend] * (1 + 0.1 * operators.index(operator))
        work = {"flops": size, "bytes": size * 12, "bandwidth_limit": 1e12}
        found.append(make_record(cell, time, run, **work, bandwidth_limit_kind="copy, memory"))
    return found


def checked_records(run: Run) -> list[Record]:
    """Checks of two operators, of which one is wrong and one was skipped."""
    found = [
        make_record(make_cell(operator=operator, backend=backend, mode=check), None, run)
        for operator, backend, check in product(("add", "softmax"), ("jnp", "numba"), ("compiled", "vmap"))
    ]
    wrong = make_cell(operator="softmax", backend="warp", mode="compiled")
    found.append(make_record(wrong, None, run, status=Status.WRONG_VALUE, reason="got 1.0, truth 2.0"))
    absent = make_cell(operator="add", backend="warp", mode="vmap")
    found.append(make_record(absent, None, run, status=Status.SKIPPED, reason="warp is not installed"))
    return found


def run_of(kind: str, number: int = 0, **changes: object) -> Run:
    """The header of a run of a kind; a later one has a greater number."""
    fields = {
        "run_id": f"20261120T19{number:02d}02-{kind}",
        "started": f"2026-11-20T19:{number:02d}:02+00:00",
        "profile": {"times": "quick", "checks": "validate quick"}[kind],
        "selection": {},
    }
    return make_run(**{**fields, **changes})


def nasty_records(run: Run) -> list[Record]:
    """Cells whose every text from outside is hostile, one of them failed."""
    found = []
    for place, name in enumerate(NASTY):
        for backend in ("jnp", name):
            cell = make_cell(
                operator=name, backend=backend, mode=name, dtype=name, size=16 + place, params={name: name}
            )
            found.append(make_record(cell, 1000.0 + place, run))
    cell = make_cell(operator=NASTY[0], backend="x", mode="m")
    found.append(make_record(cell, None, run, status=Status.RUNTIME_ERROR, reason=" ".join(NASTY)))
    return found


def nasty_run() -> Run:
    """A header whose every text from outside is hostile."""
    return run_of(
        "times", source=Source(commit=NASTY[1], dirty=True), versions=dict.fromkeys(NASTY, NASTY[0]),
        flags={name: name for name in NASTY},
    )  # fmt: skip
