"""Defines all columns, for frames, CSV, JSON, tables, their notes and the documentation."""

from collections.abc import Callable, Sequence

from reports.pages.bandwidth_notes import OVER, limits_text, roofs_text
from reports.pages.cell_texts import (
    budget_text,
    bytes_of,
    distance_text,
    energy_of_call_text,
    median_text,
    ratio_interval_text,
    ratio_to_baseline_text,
    reference_budget_text,
    share_text,
    spread_text,
    time_of,
)
from reports.pages.fact import Fact, Kind, Shown, TableKind
from reports.pages.grown import grown_bytes, samples_of
from reports.pages.readers import (
    json_text,
    of_accuracy,
    of_dispatch,
    of_endurance,
    of_resources,
    of_stages,
    of_timing,
)
from reports.pages.rows import BASELINE, CellRow
from reports.records.measurements import Stages, Timing
from reports.records.quantiles import quantile
from reports.render.layout import Text
from reports.render.units import ABSENT, DASH, TIED, TIMES, ms_text


def _stage(header: str, read: Callable[[Stages], float | None], table: TableKind, hint: str = "") -> Shown:
    def text(row: CellRow) -> Text:
        return Text(ms_text(read(row.record.stages) if row.record.stages else None))

    return Shown(table=table, header=header, text=text, hint=hint)


def _clock(timing: Timing) -> float | None:
    clocks = [process.clock_mhz for process in timing.processes if process.clock_mhz is not None]
    return quantile(clocks, 0.5) if clocks else None


def _bandwidth_hint(rows: Sequence[CellRow]) -> str:
    return f"bw%: declared bytes per second, in percent of the bandwidth measured in this run: {roofs_text(rows)}"


def _roof_hint(rows: Sequence[CellRow]) -> str:
    return f"roof%: time at the measured rate of what limits the call, in percent of its own time: {limits_text(rows)}"


SPREAD = f"low{DASH}high"

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
        Fact("gpu", "the GPU that ran the cell, in a session on several", lambda r: r.record.gpu),
    ),
    "Outcome": (
        Fact("status", "how the cell ended", lambda r: str(r.status)),
        Fact("reason", "why it did not pass", lambda r: r.record.reason),
        Fact("remarks", "what the operator's author says about its rows", lambda r: r.record.remarks),
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
        Fact(
            "worst_index",
            "index of the element that used the largest share",
            of_accuracy(lambda a: None if a.worst_index is None else json_text(a.worst_index)),
            kind=Kind.JSON,
        ),
        Fact("got", "its value", of_accuracy(lambda a: None if a.got is None else str(a.got))),
        Fact("truth", "its true value", of_accuracy(lambda a: None if a.truth is None else str(a.truth))),
    ),
    "Times": (
        Fact(
            "median_ns",
            "median time of a call",
            of_timing(lambda t: t.median_ns),
            unit="ns",
            kind=Kind.NUMBER,
            shown=Shown(
                table=TableKind.TIMES,
                header="time",
                text=median_text,
                hint="time: median per call in a loop, over processes",
            ),
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
                text=spread_text,
                hint=f"{SPREAD}: least and greatest median of a process, in the unit of the time; with one process, the"
                " 20th and 80th percentiles of its samples",
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
            "time divided by the time of `jnp` in the same process, median over processes; in the dispatch benchmark,"
            " median of the ratios to `reference`, round by round",
            lambda r: r.ratio,
            kind=Kind.NUMBER,
            shown=Shown(
                table=TableKind.TIMES,
                header=TIMES + BASELINE,
                text=ratio_to_baseline_text,
                hint=f"{TIMES}{BASELINE}: time divided by the time of {BASELINE} in the same process, median over"
                f" processes; above 1 is slower than {BASELINE}; {TIED} where they cannot be told apart; {ABSENT} where"
                f" {BASELINE} has no time of the same inputs, method and cache state",
                baseline=False,
            ),
        ),
        Fact(
            "ratio_low",
            "lower end of the 95 % interval of `ratio`, across processes",
            lambda r: r.compared.low if r.compared else None,
            kind=Kind.NUMBER,
            shown=Shown(
                table=TableKind.TIMES,
                header="95%",
                text=ratio_interval_text,
                hint=f"95%: interval of {TIMES}{BASELINE}, Student's t across processes",
                drop=3,
                baseline=False,
            ),
        ),
        Fact("ratio_high", "its upper end", lambda r: r.compared.high if r.compared else None, kind=Kind.NUMBER),
        Fact("doubt", "why there is no ratio, though both have a time", lambda r: r.doubt),
        Fact(
            "is_steady",
            "whether the calls, and not the program around them, decide the time",
            of_timing(lambda t: t.is_steady),
            kind=Kind.FLAG,
        ),
        Fact(
            "alone_ns",
            "time of a single call from Python",
            of_timing(lambda t: t.alone_ns),
            unit="ns",
            kind=Kind.NUMBER,
            shown=Shown(
                table=TableKind.ALONE,
                header="alone",
                text=time_of(lambda t: t.alone_ns),
                hint="alone: a single call from Python, up to the end of its work",
            ),
        ),
        Fact(
            "alone_warm_ns",
            "the same, while the process keeps freed memory",
            of_timing(lambda t: t.alone_warm_ns),
            unit="ns",
            kind=Kind.NUMBER,
            shown=Shown(
                table=TableKind.ALONE,
                header="warm",
                text=time_of(lambda t: t.alone_warm_ns),
                hint="warm: the same, where the results take over the memory of the results before",
            ),
        ),
        Fact(
            "fixed_ns",
            "time of a compiled program beyond its calls",
            of_timing(lambda t: t.fixed_ns),
            unit="ns",
            kind=Kind.NUMBER,
            shown=Shown(
                table=TableKind.ALONE,
                header="fixed",
                text=time_of(lambda t: t.fixed_ns),
                hint="fixed: what a compiled program costs beyond the calls in its loop, once per program; it is no"
                " part of the time per call",
            ),
        ),
        Fact(
            "kernels_ns",
            "on a GPU, time of the kernels of a call alone, without copies, sets and gaps",
            of_timing(lambda t: t.kernels_ns),
            unit="ns",
            kind=Kind.NUMBER,
            shown=Shown(
                table=TableKind.TIMES,
                header="kernels",
                text=time_of(lambda t: t.kernels_ns),
                hint="kernels: the kernels of a call alone, without copies, sets and the gaps between them",
                drop=2,
            ),
        ),
        Fact(
            "process_medians_ns",
            "median of each process",
            of_timing(lambda t: json_text(t.medians_ns)),
            unit="ns",
            kind=Kind.JSON,
        ),
        Fact(
            "discarded",
            "samples thrown away because the device was throttled",
            of_timing(lambda t: t.discarded),
            kind=Kind.NUMBER,
        ),
        Fact(
            "clock_mhz",
            "clock of the device while samples were taken, median over processes",
            of_timing(_clock),
            unit="MHz",
            kind=Kind.NUMBER,
        ),
        Fact("processes", "number of processes", of_timing(lambda t: len(t.processes)), kind=Kind.NUMBER),
        Fact("samples", "number of samples", of_timing(lambda t: len(t.samples_ns)), kind=Kind.NUMBER),
        Fact("loops", "calls in the shorter loop of a round", of_timing(lambda t: t.loops), kind=Kind.NUMBER),
        Fact("method", "how time was taken", of_timing(lambda t: t.method)),
        Fact("cache", "state of the caches before a call", of_timing(lambda t: t.cache)),
        Fact("stop", "why sampling ended", of_timing(lambda t: t.stop)),
    ),
    "Stages": (
        Fact(
            "until_compiled_ms",
            "tracing, lowering and compiling together, with the compiler of the kernel",
            of_stages(lambda s: s.until_compiled_ms),
            unit="ms",
            kind=Kind.NUMBER,
            shown=_stage(
                "compile",
                lambda s: s.until_compiled_ms,
                TableKind.BEFORE,
                "compile: tracing, lowering and compiling, with the compiler of the kernel, one measurement",
            ),
        ),
        *(
            Fact(
                name,
                description,
                of_stages(read),
                unit="ms",
                kind=Kind.NUMBER,
                shown=_stage(header, read, TableKind.STAGES),
                also=_stage(header, read, TableKind.BEFORE, f"{header}: {description}, one measurement")
                if again
                else None,
            )
            for name, header, description, again, read in (
                ("trace_ms", "trace", "time to trace the function", False, lambda s: s.trace_ms),
                ("lower_ms", "lower", "time to lower it to StableHLO", False, lambda s: s.lower_ms),
                ("compile_ms", "compile", "time of XLA's compiler", False, lambda s: s.compile_ms),
                ("first_call_ms", "first call", "time of the first call", True, lambda s: s.first_call_ms),
            )
        ),
    ),
    "Resources": (
        Fact(
            "host_bytes",
            "growth of the process's largest resident memory by a call",
            of_resources(lambda r: r.host_bytes),
            unit="B",
            kind=Kind.NUMBER,
            shown=Shown(
                table=TableKind.BEFORE,
                header="host",
                text=bytes_of(lambda r: r.host_bytes),
                hint="host: growth of the process's largest resident memory by a call, with its outputs",
            ),
        ),
        Fact(
            "device_bytes",
            "memory of the GPU that a call holds at its peak, without its inputs",
            of_resources(lambda r: r.device_bytes),
            unit="B",
            kind=Kind.NUMBER,
            shown=Shown(
                table=TableKind.BEFORE,
                header="device",
                text=bytes_of(lambda r: r.device_bytes),
                hint="device: memory of the GPU that a call holds at its peak, without its inputs, with its outputs",
            ),
        ),
        Fact(
            "energy_j",
            "energy of the device for a call, with its share of idle power",
            of_resources(lambda r: r.energy_j),
            unit="J",
            kind=Kind.NUMBER,
            shown=Shown(
                table=TableKind.BEFORE,
                header="energy",
                text=energy_of_call_text,
                hint="energy: what the device takes for a call; a share of its idle power counts",
            ),
        ),
    ),
    "Work": (
        Fact(
            "hlo",
            "lines of the compiled program: the calls of kernels, or its first lines if it has none",
            lambda r: None if r.record.hlo is None else json_text(r.record.hlo),
            kind=Kind.JSON,
        ),
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
            "roof_share",
            "`roof_ns` divided by `median_ns`",
            lambda r: r.record.roof_share,
            kind=Kind.NUMBER,
            shown=Shown(
                table=TableKind.TIMES,
                header="roof%",
                text=lambda r: share_text(r.record.roof_share, OVER),
                hint=_roof_hint,
                drop=1,
            ),
        ),
        Fact(
            "roof_ns",
            "least time of a call: of its bytes, operations and scattered reads at measured rates, what takes longest",
            lambda r: r.record.roof_ns,
            unit="ns",
            kind=Kind.NUMBER,
        ),
        Fact("roof_kind", "what takes it", lambda r: r.record.roof_kind),
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
    "Endurance": (
        Fact("endured", "how many calls or kernels a trial did", of_endurance(lambda e: e.done), kind=Kind.INTEGER),
        Fact("endured_unit", "what is counted", of_endurance(lambda e: e.unit)),
        Fact("endured_s", "how long it took", of_endurance(lambda e: e.seconds), unit="s", kind=Kind.NUMBER),
        Fact(
            "resident_growth",
            "growth of resident memory for each of them: the median of the slopes of all pairs of samples",
            of_endurance(lambda e: grown_bytes(e, "resident_bytes")),
            unit="B",
            kind=Kind.NUMBER,
        ),
        Fact(
            "device_growth",
            "the same for the memory of the GPU",
            of_endurance(lambda e: grown_bytes(e, "device_bytes")),
            unit="B",
            kind=Kind.NUMBER,
        ),
        Fact(
            "allowed_growth",
            "growth over the whole trial that is no leak",
            of_endurance(lambda e: e.allowed_bytes),
            unit="B",
            kind=Kind.INTEGER,
        ),
        Fact(
            "memory_samples",
            "count, seconds, resident bytes, bytes of the GPU and seconds of processor time at each sample",
            of_endurance(lambda e: json_text(samples_of(e))),
            kind=Kind.JSON,
        ),
    ),
    "Run": (
        Fact("started", "when the run started: ISO 8601, UTC", lambda r: r.run.started),
        Fact("profile", "name of the selection that ran", lambda r: r.run.profile),
        Fact("commit", "git commit of the operators", lambda r: r.run.source.commit),
        Fact("dirty", "whether there were uncommitted changes", lambda r: r.run.source.dirty, kind=Kind.FLAG),
        Fact("digest", "identifies the content of the source files that ran", lambda r: r.run.source.digest),
        Fact(
            "selection",
            "the cells that were asked for, by option",
            lambda r: None if r.run.selection is None else json_text(r.run.selection),
            kind=Kind.JSON,
        ),
        Fact("library", "other library that was timed beside the kernels, with its version", lambda r: r.library),
        Fact(
            "peers",
            "other libraries that the run timed beside the kernels, by backend",
            lambda r: json_text(r.run.peers) if r.run.peers else None,
            kind=Kind.JSON,
        ),
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
        Fact(
            "host_memory_bytes",
            "memory of the machine",
            lambda r: r.run.host.memory_bytes,
            unit="B",
            kind=Kind.NUMBER,
        ),
        Fact("machine", "identifies the machine", lambda r: r.run.host.machine),
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
    return [(fact, shown) for fact in FACTS for shown in (fact.shown, fact.also) if shown and shown.table is table]


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
