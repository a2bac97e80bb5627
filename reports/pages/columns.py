"""Defines all columns, for frames, CSV, JSON, tables, their notes and the documentation."""

from collections.abc import Callable, Sequence

from reports.pages.bandwidth_notes import OVER, roofs_text
from reports.pages.cell_texts import (
    budget_text,
    distance_text,
    median_text,
    quantiles_text,
    reference_budget_text,
    share_text,
)
from reports.pages.fact import Fact, Kind, Shown, TableKind
from reports.pages.readers import json_text, of_accuracy, of_dispatch, of_stages, of_timing
from reports.pages.rows import BASELINE, CellRow
from reports.records.measurements import Stages
from reports.render.layout import Text
from reports.render.units import ABSENT, DASH, TIMES, ms_text, ratio_text


def _stage(header: str, read: Callable[[Stages], float | None]) -> Shown:
    def text(row: CellRow) -> Text:
        return Text(ms_text(read(row.record.stages) if row.record.stages else None))

    return Shown(table=TableKind.STAGES, header=header, text=text)


def _bandwidth_hint(rows: Sequence[CellRow]) -> str:
    return f"bw%: declared bytes per second, in percent of the bandwidth measured in this run: {roofs_text(rows)}"


SPREAD = f"p20{DASH}p80"

SECTIONS: dict[str, tuple[Fact, ...]] = {
    "Identity": (
        Fact("index", "place of the cell in its run", lambda r: r.record.index, kind=Kind.INTEGER),
        Fact("run_id", "the run", lambda r: r.run.run_id),
        Fact("cell_id", "the cell in words, without its parameters", lambda r: r.cell.id),
        Fact("operator", "name of the operator", lambda r: r.cell.operator),
        Fact(
            "operator_version",
            "raised whenever the meaning of the operator changes",
            lambda r: r.cell.operator_version,
            kind=Kind.INTEGER,
        ),
        Fact("backend", "the backend; in the dispatch benchmark, the way to call the kernel", lambda r: r.cell.backend),
        Fact(
            "mode",
            "the transformation or direction; in a validation, the check; in the dispatch benchmark, the"
            " situation of the call",
            lambda r: r.cell.mode,
        ),
        Fact("platform", "`cpu` or `cuda`", lambda r: r.cell.platform),
        Fact("dtype", "full name of the dtype", lambda r: r.cell.dtype),
        Fact("size", "nominal number of elements", lambda r: r.cell.size, kind=Kind.INTEGER),
        Fact("params", "anything else that tells cells apart, by name", lambda r: r.cell.params_text, kind=Kind.JSON),
        Fact("seed", "seed of the inputs", lambda r: r.record.seed, kind=Kind.INTEGER),
        Fact("shapes", "shapes of the inputs", lambda r: json_text(r.record.shapes), kind=Kind.JSON),
        Fact("dtypes", "dtypes of the inputs", lambda r: json_text(r.record.dtypes), kind=Kind.JSON),
        Fact("time", "when the cell ended: ISO 8601, UTC", lambda r: r.record.time),
    ),
    "Outcome": (
        Fact("status", "how the cell ended", lambda r: str(r.status)),
        Fact("reason", "why it did not pass", lambda r: r.record.reason),
        Fact(
            "budget_used",
            "largest share of the error budget that an element used; 1 is the limit",
            of_accuracy(lambda a: a.budget_used),
            kind=Kind.NUMBER,
            shown=Shown(
                table=TableKind.ACCURACY,
                header="budget%",
                text=budget_text,
                hint="budget%: largest share of the error budget that an element used, in percent; ! above 100",
            ),
        ),
        Fact(
            "reference_budget_used",
            "the same share, for the result of `jnp` on the same inputs",
            of_accuracy(lambda a: a.reference_budget_used),
            kind=Kind.NUMBER,
            shown=Shown(
                table=TableKind.ACCURACY,
                header="XLA%",
                text=reference_budget_text,
                hint="XLA%: the same for XLA's own result on the same inputs",
                baseline=False,
            ),
        ),
        Fact(
            "max_ulp",
            "largest distance from the truth",
            of_accuracy(lambda a: a.max_ulp),
            unit="ULP",
            kind=Kind.NUMBER,
            shown=Shown(table=TableKind.ACCURACY, header="max ulp", text=distance_text, drop=1),
        ),
    ),
    "Times": (
        Fact(
            "median_ns",
            "median time of a call",
            of_timing(lambda t: t.median_ns),
            unit="ns",
            kind=Kind.NUMBER,
            shown=Shown(table=TableKind.TIMES, header="time", text=median_text, hint="time: median per call"),
        ),
        Fact(
            "low_ns",
            "least median of a process; with one process, the 20th percentile of its samples",
            of_timing(lambda t: t.low_ns),
            unit="ns",
            kind=Kind.NUMBER,
            shown=Shown(
                table=TableKind.TIMES,
                header=SPREAD,
                text=quantiles_text,
                hint=f"{SPREAD}: 20th and 80th percentiles of the time, in its unit",
                drop=2,
            ),
        ),
        Fact(
            "high_ns",
            "greatest median of a process; with one process, the 80th percentile of its samples",
            of_timing(lambda t: t.high_ns),
            unit="ns",
            kind=Kind.NUMBER,
        ),
        Fact(
            "ratio",
            "median time divided by the median time of `jnp`; in the dispatch benchmark, median of the"
            " ratios to `reference`, round by round",
            lambda r: r.ratio,
            kind=Kind.NUMBER,
            shown=Shown(
                table=TableKind.TIMES,
                header=TIMES + BASELINE,
                text=lambda r: Text(ratio_text(r.ratio)),
                hint=f"{TIMES}{BASELINE}: time divided by the time of {BASELINE}; above 1 is slower than {BASELINE};"
                f" {ABSENT} where {BASELINE} has no time of the same inputs, method and cache state",
                baseline=False,
            ),
        ),
        Fact("processes", "number of processes", of_timing(lambda t: len(t.processes)), kind=Kind.NUMBER),
        Fact("samples", "number of samples", of_timing(lambda t: len(t.samples_ns)), kind=Kind.NUMBER),
        Fact("loops", "calls in one sample", of_timing(lambda t: t.loops), kind=Kind.NUMBER),
        Fact("method", "how time was taken", of_timing(lambda t: t.method)),
        Fact("cache", "state of the caches before a call", of_timing(lambda t: t.cache)),
        Fact("stop", "why sampling ended", of_timing(lambda t: t.stop)),
    ),
    "Stages": tuple(
        Fact(name, description, of_stages(read), unit="ms", kind=Kind.NUMBER, shown=_stage(header, read))
        for name, header, description, read in (
            ("trace_ms", "trace", "time to trace the function", lambda s: s.trace_ms),
            ("lower_ms", "lower", "time to lower it to StableHLO", lambda s: s.lower_ms),
            ("compile_ms", "compile", "time of the compiler", lambda s: s.compile_ms),
            ("first_call_ms", "first call", "time of the first call", lambda s: s.first_call_ms),
        )
    ),
    "Work": (
        Fact("bytes", "bytes that a call must read and write", lambda r: r.record.bytes, unit="B", kind=Kind.NUMBER),
        Fact("flops", "floating-point operations of a call", lambda r: r.record.flops, kind=Kind.NUMBER),
        Fact(
            "bandwidth",
            "bytes per second at the median time",
            lambda r: r.record.bandwidth,
            unit="B/s",
            kind=Kind.NUMBER,
        ),
        Fact(
            "bandwidth_share",
            "`bandwidth` divided by `bandwidth_limit`",
            lambda r: r.record.bandwidth_share,
            kind=Kind.NUMBER,
            shown=Shown(
                table=TableKind.TIMES,
                header="bw%",
                text=lambda r: share_text(r.record.bandwidth_share, OVER),
                hint=_bandwidth_hint,
                drop=1,
            ),
        ),
        Fact(
            "bandwidth_limit",
            "bandwidth measured in the same run, for the same amount of data",
            lambda r: r.record.bandwidth_limit,
            unit="B/s",
            kind=Kind.NUMBER,
        ),
        Fact("bandwidth_limit_kind", "what was measured for it", lambda r: r.record.bandwidth_limit_kind),
        Fact(
            "flop_rate",
            "floating-point operations per second at the median time",
            lambda r: r.record.flop_rate,
            unit="1/s",
            kind=Kind.NUMBER,
        ),
    ),
    "Dispatch": (
        Fact("title", "the way to call the kernel, in words", of_dispatch(lambda d: d.title)),
        Fact("mode_title", "the situation of the call, in words", of_dispatch(lambda d: d.mode_title)),
        Fact("reference", "the way that `ratio` compares with", of_dispatch(lambda d: d.reference)),
        Fact(
            "limits",
            "targets: the largest ratio to other ways",
            of_dispatch(lambda d: json_text(d.limits)),
            kind=Kind.JSON,
        ),
    ),
    "Run": (
        Fact("started", "when the run started: ISO 8601, UTC", lambda r: r.run.started),
        Fact("profile", "name of the selection that ran", lambda r: r.run.profile),
        Fact("commit", "git commit of the operators", lambda r: r.run.source.commit),
        Fact("dirty", "whether there were uncommitted changes", lambda r: r.run.source.dirty, kind=Kind.FLAG),
        Fact("versions", "versions of the libraries, by name", lambda r: json_text(r.run.versions), kind=Kind.JSON),
        Fact(
            "flags",
            "settings that change the code or its speed, by name",
            lambda r: json_text(r.run.flags),
            kind=Kind.JSON,
        ),
    ),
    "Machine": (
        Fact("host_cpu", "model of the CPU", lambda r: r.run.host.cpu),
        Fact("cores", "cores of the CPU", lambda r: r.run.host.cores, kind=Kind.INTEGER),
        Fact("affinity", "cores that the process may use", lambda r: json_text(r.run.host.affinity), kind=Kind.JSON),
        Fact("threads", "numbers of threads, by library", lambda r: json_text(r.run.host.threads), kind=Kind.JSON),
        Fact(
            "load",
            "mean number of busy processes in the minute before the run",
            lambda r: r.run.host.load,
            kind=Kind.NUMBER,
        ),
        Fact("os", "the operating system", lambda r: r.run.host.os),
        Fact("device_kind", "the device, as JAX names it", lambda r: r.run.device.kind),
        Fact("device_uuid", "identity of the device", lambda r: r.run.device.uuid),
        Fact("ordinal", "number of the device", lambda r: r.run.device.ordinal, kind=Kind.INTEGER),
        Fact("driver", "version of the driver", lambda r: r.run.device.driver),
        Fact("cuda", "version of CUDA that the driver supports", lambda r: r.run.device.cuda),
        Fact("l2_bytes", "size of the L2 cache", lambda r: r.run.device.l2_bytes, unit="B", kind=Kind.NUMBER),
        Fact("memory_bytes", "memory of the device", lambda r: r.run.device.memory_bytes, unit="B", kind=Kind.NUMBER),
        Fact(
            "sm_clock_mhz",
            "clock of the multiprocessors when the run started",
            lambda r: r.run.device.sm_clock_mhz,
            unit="MHz",
            kind=Kind.NUMBER,
        ),
    ),
}
"""All columns, by the section of the documentation."""

FACTS = tuple(fact for section in SECTIONS.values() for fact in section)


def facts_of(table: TableKind) -> list[tuple[Fact, Shown]]:
    """Returns the columns of a kind of table."""
    return [(fact, fact.shown) for fact in FACTS if fact.shown and fact.shown.table is table]


def hint_text(shown: Shown, rows: Sequence[CellRow]) -> str:
    """Returns the note about a column below a table of these rows."""
    return shown.hint if isinstance(shown.hint, str) else shown.hint(rows)


def documentation() -> str:
    """Returns the columns as Markdown: for each section a heading and a table."""
    lines: list[str] = []
    for title, facts in SECTIONS.items():
        lines += [f"### {title}", "", "| column | type | unit | meaning |", "| --- | --- | --- | --- |"]
        lines += [f"| `{fact.name}` | {fact.kind} | {fact.unit} | {fact.description} |" for fact in facts]
        lines.append("")
    return "\n".join(lines)
