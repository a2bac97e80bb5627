"""Defines all columns, for frames, CSV, JSON, tables, their notes and the documentation."""

import json
import math
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from reports.pages.bandwidth_notes import OVER
from reports.pages.rows import BASELINE, CellRow
from reports.records.measurements import Timing
from reports.records.quantiles import quantile
from reports.render.layout import Style, Text
from reports.render.units import (
    ABSENT,
    DASH,
    TIED,
    TIMES,
    bytes_text,
    interval_text,
    ms_text,
    percent_text,
    ratio_text,
    time_range_text,
    time_text,
    ulp_text,
)
from reports.statistics.verdict_codes import TIE

Value = str | int | float | bool | None


class Kind(StrEnum):
    """The type of the values of a column."""

    TEXT = "text"
    JSON = "JSON"
    FLAG = "true or false"
    INTEGER = "integer"
    NUMBER = "number"


@dataclass(frozen=True, slots=True)
class Shown:
    """How a table shows a column.

    Attributes:
        header: Header of the column.
        text: Writes the value of a row.
        hint: The note below the table.
        drop: If a table is too wide, the columns with the highest number are dropped first; 0 stays.
        details: Whether only a table with details has the column.
    """

    header: str
    text: Callable[[CellRow], Text]
    hint: str
    drop: int = 0
    details: bool = False


@dataclass(frozen=True, slots=True)
class Fact:
    """One column.

    Attributes:
        name: Its name in frames, CSV and JSON.
        description: One line about it.
        source: The attribute of a row that holds the value, such as `record.accuracy.max_ulp`, or a function of a row.
        kind: The type of its values. A frame has JSON as text.
        unit: The unit of its values.
        shown: How tables show it; None where only frames and files have it.
    """

    name: str
    description: str
    source: str | Callable[[CellRow], Any]
    kind: Kind = Kind.TEXT
    unit: str = ""
    shown: Shown | None = None

    def read(self, row: CellRow) -> Value:
        """Returns the value of a row; None where a part of the record is missing."""
        value = _read(row, self.source) if isinstance(self.source, str) else self.source(row)
        if self.unit == "s" and value is not None:
            # Records have nanoseconds, and milliseconds for stages.
            per_second = 1e9 if str(self.source).endswith("_ns") else 1e3
            value = [one / per_second for one in value] if isinstance(value, list) else value / per_second
        if value is None or self.kind is not Kind.JSON or isinstance(value, str):
            return str(value) if self.kind is Kind.TEXT and value is not None else value
        return json.dumps(value, sort_keys=isinstance(value, dict))


def _read(row: CellRow, source: str) -> Any:
    value: Any = row
    for name in source.split("."):
        value = None if value is None else getattr(value, name)
    return value


def _as(write: Callable[[Any], str], source: str) -> Callable[[CellRow], Text]:
    return lambda row: Text(write(_read(row, source)))


def _time(source: str) -> Callable[[CellRow], Text]:
    """Returns a writer of a time; one below zero, which is noise, is shown as 0."""
    return _as(lambda ns: "0 ns" if ns is not None and ns <= 0 else time_text(ns), source)


def spread_text(row: CellRow) -> Text:
    """Returns the least and the greatest median of a process, in the unit of the time of the cell."""
    return Text(time_range_text(row.timing.low_ns, row.timing.high_ns, row.timing.median_ns) if row.timing else ABSENT)


def ratio_to_baseline_text(row: CellRow) -> Text:
    """Returns the ratio to the baseline, marked if the two cannot be told apart."""
    ratio = row.compared
    if row.cell.backend == BASELINE:
        return Text("")
    if ratio is None or ratio.low is None:
        return Text(ratio_text(row.ratio))
    return Text((TIED if ratio.is_tie(TIE[row.cell.platform]) else "") + ratio_text(ratio.value))


def ratio_interval_text(row: CellRow) -> Text:
    """Returns the 95 % interval of the ratio to the baseline."""
    if row.cell.backend == BASELINE:
        return Text("")
    return Text(interval_text(row.compared.low, row.compared.high) if row.compared else ABSENT)


def share_text(share: float | None, limit: float, failed: bool = False) -> Text:
    """Returns a share in percent, marked if it is above a limit or belongs to a failed cell."""
    if share is None or math.isnan(share):
        return Text("nan!" if failed and share is not None else ABSENT, Style.BAD if failed else Style.PLAIN)
    over = share > limit
    return Text(percent_text(share) + ("!" if over else ""), Style.BAD if over or failed else Style.PLAIN)


def _clock(timing: Timing | None) -> float | None:
    clocks = [process.clock_mhz for process in timing.processes if process.clock_mhz is not None] if timing else []
    return quantile(clocks, 0.5) if clocks else None


def _pair_numbers(timing: Timing | None) -> list[int | None] | None:
    numbers = [process.block for process in timing.processes] if timing else []
    return numbers if any(number is not None for number in numbers) else None


def _detail(header: str, write: Callable[[CellRow], Text], hint: str) -> Shown:
    return Shown(header, write, f"{header}: {hint}", drop=4, details=True)


def _budget_text(row: CellRow) -> Text:
    # A cell can fail for another reason than its budget. Its number must not look like a success.
    return share_text(_read(row, "record.accuracy.budget_used"), 1.0, failed=row.status.failed)


SPREAD = f"low{DASH}high"

_JSON, _FLAG, _INT, _NUM = Kind.JSON, Kind.FLAG, Kind.INTEGER, Kind.NUMBER

SECTIONS: dict[str, tuple[Fact, ...]] = {
    "Identity": (
        Fact("index", "number of the cell in its run, from 0", "record.index", _INT),
        Fact("run_id", "the run", "run.run_id"),
        Fact("cell_id", "the cell as text, without its parameters", "cell.id"),
        Fact("operator", "name of the operator", "cell.operator"),
        Fact("operator_version", "raised whenever the meaning of the operator changes", "cell.operator_version", _INT),
        Fact("backend", "the backend", "cell.backend"),
        Fact("mode", "the transformation or direction; in a validation, the check", "cell.mode"),
        Fact("platform", "`cpu` or `cuda`", "cell.platform"),
        Fact("dtype", "full name of the dtype", "cell.dtype"),
        Fact("size", "nominal number of elements", "cell.size", _INT),
        Fact("params", "other facts that tell cells apart, by name", "cell.params_text", _JSON),
        Fact("seed", "seed of the inputs", "record.seed", _INT),
        Fact("shapes", "shapes of the inputs", "record.shapes", _JSON),
        Fact("dtypes", "dtypes of the inputs", "record.dtypes", _JSON),
        Fact("time", "when the cell ended: ISO 8601, UTC", "record.time"),
    ),
    "Outcome": (
        Fact("status", "how the cell ended", "status"),
        Fact("reason", "why it did not pass", "record.reason"),
        Fact("remarks", "remarks of the operator's author", "record.remarks"),
        Fact("arithmetic", "numbers that the reference computes in, such as `products of TF32, sums of float32`",
             "record.arithmetic", shown=_detail("arithmetic", _as(lambda said: said or ABSENT, "record.arithmetic"),
             "the numbers that the reference computes in")),
        Fact("code_lines", "lines of code of the kernel, with the functions of its file that it uses",
             "record.code_lines", _INT, "", _detail("lines", _as(lambda count: str(count or ABSENT),
             "record.code_lines"), "lines of code of the kernel, with the functions of its file that it uses")),
        Fact("launch", "numbers that a kernel of Triton or cuTile was launched with, such as the sizes of its blocks",
             "record.launch", _JSON),
        Fact("budget_used", "largest share of the error budget that an element used; 1 is the limit",
             "record.accuracy.budget_used", _NUM, "", _detail("budget%", _budget_text,
             "largest share of the error budget that an element used, in percent; ! above 100")),
        Fact("max_ulp", "largest distance from the truth", "record.accuracy.max_ulp", _NUM, "ULP",
             _detail("max ulp", _as(ulp_text, "record.accuracy.max_ulp"), "largest distance from the truth")),
        Fact("worst_index", "index of the element that used the largest share", "record.accuracy.worst_index", _JSON),
        Fact("got", "value of that element", "record.accuracy.got"),
        Fact("truth", "true value of that element", "record.accuracy.truth"),
    ),
    "Times": (
        Fact("median_s", "median time of a call", "timing.median_ns", _NUM, "s"),
        Fact("low_s", "least median of a process; with one process, the 20th percentile of its samples",
             "timing.low_ns", _NUM, "s", Shown(SPREAD, spread_text,
             f"{SPREAD}: least and greatest median of a process, in the unit of the time; with one process, the 20th"
             " and 80th percentiles of its samples", drop=2)),
        Fact("high_s", "greatest median of a process; with one process, the 80th percentile of its samples",
             "timing.high_ns", _NUM, "s"),
        Fact("ratio", "time divided by the time of `jnp`, each the median over processes", "ratio", _NUM, "",
             Shown(TIMES + BASELINE, ratio_to_baseline_text,
             f"{TIMES}{BASELINE}: time divided by the time of {BASELINE}; above 1 is slower than {BASELINE};"
             f" {TIED} where they cannot be told apart; {ABSENT} where {BASELINE}"
             " has no time of the same inputs, method and cache state")),
        Fact("ratio_low", "lower end of the 95 % interval of `ratio`, across processes", "compared.low", _NUM, "",
             Shown("95%", ratio_interval_text, f"95%: interval of {TIMES}{BASELINE}, Student's t across processes", 3)),
        Fact("ratio_high", "upper end of that interval", "compared.high", _NUM),
        Fact("doubt", "why there is no ratio, though the cell and `jnp` have a time", "doubt"),
        Fact("is_steady", "whether the calls, and not the program around them, take most of the time",
             "timing.is_steady", _FLAG),
        Fact("fixed_s", "time of a compiled program beyond its calls", "timing.fixed_ns", _NUM, "s",
             _detail("fixed", _time("timing.fixed_ns"), "time of a compiled program beyond the calls in its loop,"
                     " which the time per call does not include")),
        Fact("kernels_s", "on a GPU, time of the kernels of a call alone, without copies, sets and gaps",
             "timing.kernels_ns", _NUM, "s", Shown("kernels", _time("timing.kernels_ns"),
             "kernels: the kernels of a call alone, without copies, sets and the gaps between them", 2)),
        Fact("process_medians_s", "median of each process", "timing.medians_ns", _JSON, "s"),
        Fact("blocks", "pair number of each process; base and head with the same number were timed together",
             lambda r: _pair_numbers(r.timing), _JSON),
        Fact("discarded", "samples thrown away because the device was throttled", "timing.discarded", _NUM),
        Fact("clock_mhz", "clock of the device while samples were taken, median over processes",
             lambda r: _clock(r.timing), _NUM, "MHz"),
        Fact("processes", "number of processes", lambda r: len(r.timing.processes) if r.timing else None, _NUM),
        Fact("samples", "number of samples", lambda r: len(r.timing.samples_ns) if r.timing else None, _NUM),
        Fact("loops", "calls in the shorter loop of a round", "timing.loops", _NUM),
        Fact("method", "how time was taken", "timing.method"),
        Fact("cache", "state of the caches before a call", "timing.cache"),
        Fact("stop", "why sampling ended", "timing.stop"),
    ),
    "Stages": (
        Fact("until_compiled_s", "tracing, lowering and compiling together, with the compiler of the kernel",
             "record.stages.until_compiled_ms", _NUM, "s", _detail("compile", _as(ms_text,
             "record.stages.until_compiled_ms"), "tracing, lowering and compiling, with the compiler of the kernel")),
        Fact("trace_s", "time to trace the function", "record.stages.trace_ms", _NUM, "s"),
        Fact("lower_s", "time to lower it to StableHLO", "record.stages.lower_ms", _NUM, "s"),
        Fact("compile_s", "time of XLA's compiler", "record.stages.compile_ms", _NUM, "s"),
        Fact("first_call_s", "time of the first call", "record.stages.first_call_ms", _NUM, "s",
             _detail("first call", _as(ms_text, "record.stages.first_call_ms"), "time of the first call")),
    ),
    "Resources": (
        Fact("host_bytes", "growth of the process's largest resident memory by a call", "record.resources.host_bytes",
             _NUM, "B", _detail("host", _as(bytes_text, "record.resources.host_bytes"),
             "growth of the process's largest resident memory by a call, with its outputs")),
        Fact("device_bytes", "memory of the GPU that a call holds at its peak, without its inputs",
             "record.resources.device_bytes", _NUM, "B", _detail("device", _as(bytes_text,
             "record.resources.device_bytes"), "memory of the GPU that a call holds at its peak, with its outputs")),
    ),
    "Work": (
        Fact("bytes", "bytes that a call must read and write", "record.bytes", _NUM, "B"),
        Fact("flops", "floating-point operations of a call", "record.flops", _NUM),
        Fact("bandwidth", "bytes per second at the median time", "record.bandwidth", _NUM, "B/s"),
        Fact("bandwidth_share", "`bandwidth` divided by `bandwidth_limit`", "record.bandwidth_share", _NUM, "",
             Shown("bw%", lambda r: share_text(r.record.bandwidth_share, OVER), "bw%: declared bytes per second,"
                   " in percent of the bandwidth measured in this run", 1)),
        Fact("bandwidth_limit", "bandwidth measured in the same run, for the same amount of data",
             "record.bandwidth_limit", _NUM, "B/s"),
        Fact("bandwidth_limit_kind", "the measurement of `bandwidth_limit`, such as `copy, memory`",
             "record.bandwidth_limit_kind"),
        Fact("roof_share", "`roof_s` divided by `median_s`", "record.roof_share", _NUM, "",
             Shown("roof%", lambda r: share_text(r.record.roof_share, OVER), "roof%: least time of the call by the"
                   " measured roofs of the device, in percent of its time", 1)),
        Fact("roof_s", "least time of a call: the longer of the times for its bytes and operations, at measured rates",
             "record.roof_ns", _NUM, "s"),
        Fact("roof_kind", "the resource that sets the roof, such as `copy, memory`", "record.roof_kind"),
        Fact("flop_rate", "floating-point operations per second at the median time", "record.flop_rate", _NUM, "1/s"),
    ),
    "Run": (
        Fact("started", "when the run started: ISO 8601, UTC", "run.started"),
        Fact("profile", "name of the selection that ran", "run.profile"),
        Fact("part", "the part of the selected cells that the run has, such as `3/8`", "run.part"),
        Fact("commit", "git commit of the operators", "run.source.commit"),
        Fact("dirty", "whether there were uncommitted changes", "run.source.dirty", _FLAG),
        Fact("project", "name of the repository of the operators", "run.source.project"),
        Fact("digest", "identifies the content of the source files that ran", "run.source.digest"),
        Fact("selection", "the selected cells, by option", "run.selection", _JSON),
        Fact("library", "the library that the cell called instead of a kernel, with its version", "library"),
        Fact("peers", "other libraries that the run timed beside the kernels, by backend",
             lambda r: r.run.peers or None, _JSON),
        Fact("versions", "versions of the libraries, by name", "run.versions", _JSON),
        Fact("flags", "settings that change the code or its speed, by name", "run.flags", _JSON),
    ),
    "Machine": (
        Fact("host_cpu", "model of the CPU", "run.host.cpu"),
        Fact("cores", "cores of the CPU", "run.host.cores", _INT),
        Fact("affinity", "cores that the process may use", "run.host.affinity", _JSON),
        Fact("threads", "numbers of threads, by library", "run.host.threads", _JSON),
        Fact("load", "mean number of busy processes in the minute before the run", "run.host.load", _NUM),
        Fact("os", "the operating system", "run.host.os"),
        Fact("host_memory_bytes", "memory of the machine", "run.host.memory_bytes", _NUM, "B"),
        Fact("machine", "identifies the machine", "run.host.machine"),
        Fact("device_kind", "the device, as JAX names it", "run.device.kind"),
        Fact("device_uuid", "identity of the device", "run.device.uuid"),
        Fact("ordinal", "number of the device", "run.device.ordinal", _INT),
        Fact("driver", "version of the driver", "run.device.driver"),
        Fact("cuda", "version of CUDA that the driver supports", "run.device.cuda"),
        Fact("l2_bytes", "size of the L2 cache", "run.device.l2_bytes", _NUM, "B"),
        Fact("memory_bytes", "memory of the device", "run.device.memory_bytes", _NUM, "B"),
        Fact("sm_clock_mhz", "clock of the multiprocessors when the run started", "run.device.sm_clock_mhz", _NUM,
             "MHz"),
    ),
}  # fmt: skip
"""All columns, by the section of the documentation."""

FACTS = tuple(fact for section in SECTIONS.values() for fact in section)


def documentation() -> str:
    """Returns the columns as Markdown: for each section a heading and a table."""
    lines: list[str] = []
    for title, facts in SECTIONS.items():
        lines += [f"### {title}", "", "| column | type | unit | meaning |", "| --- | --- | --- | --- |"]
        lines += [f"| `{fact.name}` | {fact.kind} | {fact.unit} | {fact.description} |" for fact in facts]
        lines.append("")
    return "\n".join(lines)
