"""Makes the table and the frame of a comparison of two runs."""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence

import msgspec
import pandas as pd

from reports.pages.compare import Comparison
from reports.pages.groups import dtype_order, group_names
from reports.pages.phrases import cells_text, ids_text, shorten
from reports.pages.renames import rename_notes
from reports.pages.run_notes import gpu_doubts
from reports.records.cell import short_dtype
from reports.records.header import Run
from reports.render.layout import Column, Style, Table, Text
from reports.render.units import TIMES, count_text, interval_text, percent_text, ratio_text, time_text
from reports.statistics.decision import limits_in_force
from reports.statistics.intervals import Ratio
from reports.statistics.means import geometric_mean
from reports.statistics.verdict_codes import Code, Verdict

_STYLES = {
    Verdict.SAME: Style.PLAIN, Verdict.FASTER: Style.BEST, Verdict.FIXED: Style.BEST, Verdict.SLOWER: Style.BAD,
    Verdict.BROKEN: Style.BAD, Verdict.MISSING: Style.BAD,
}  # fmt: skip


def comparison_table(
    comparisons: Sequence[Comparison], base: Run, head: Run, *, interleaved: bool = False, notes: Sequence[str] = (),
    effects: Mapping[int, Text] | None = None,
) -> Table:  # fmt: skip
    """Returns times, ratio and verdict of each cell. The notes explain why cells were not compared.

    Args:
        comparisons: The result of `compare`.
        base: The header of base.
        head: The header of head.
        interleaved: Whether their processes were timed in pairs, as for `compare`.
        notes: The first notes.
        effects: The effect of a cell on the gate, by the `id` of its comparison; a cell without one is not shown.
    """
    columns = [
        *(Column("operator", "left"), Column("dtype", "left"), Column("size"), Column("backend", "left")),
        *(Column("base"), Column("head"), Column("head/base")),
        Column("95%", drop=1, note="95%: interval of head/base, Student's t"),
        Column("verdict", "left"),
        *([Column("gate", "left")] if effects is not None else []),
    ]
    # Cells are compared across versions of their operator.
    cells = [msgspec.structs.replace(one.cell, operator_version=0) for one in comparisons]
    rows = []
    for group, one in sorted(zip(group_names(cells), comparisons, strict=True), key=lambda pair: worst_first(*pair)):
        if effects is None or id(one) in effects:
            rows.append((Text(group), *_texts(one), *([effects[id(one)]] if effects is not None else [])))
    title = f"Comparison of {_run_text(base)} (base) and {_run_text(head)} (head)"
    all_notes = (*notes, *_notes(comparisons, base, head, interleaved))
    return Table(title, tuple(columns), tuple(rows), all_notes, best="head is faster")


def comparison_frame(comparisons: Sequence[Comparison]) -> pd.DataFrame:
    """Returns one row per cell: times in seconds, `ratio` is head divided by base."""
    names = ("operator", "dtype", "size", "backend", "mode", "platform")
    numbers = ("ratio", "low", "high", "p")
    rows = [
        {name: getattr(one.cell, name) for name in names}
        | {"params": one.cell.params_text}
        | {"base_s": one.base_ns and one.base_ns / 1e9, "head_s": one.head_ns and one.head_ns / 1e9}
        | {name: getattr(one, name) for name in numbers}
        | {f"{side}_processes": one.processes and one.processes[index] for index, side in enumerate(("base", "head"))}
        | {f"{side}_status": getattr(one, f"{side}_status") for side in ("base", "head")}
        | {"verdict": str(one.verdict), "code": str(one.code), "reason": one.reason}
        for one in comparisons
    ]
    return pd.DataFrame(rows)


def verdict_lines(comparisons: Sequence[Comparison]) -> list[str]:
    """Returns the wrong and the slower cells by name, then one line with the number of cells of each verdict."""
    lines = []
    for verdict in (Verdict.SLOWER, Verdict.BROKEN):
        own = sorted((one for one in comparisons if one.verdict is verdict), key=lambda one: worst_first("", one))
        if own:
            factors = [f" {ratio_text(one.ratio)}{TIMES}" if one.ratio else "" for one in own]
            lines.append(f"{verdict}: {ids_text([one.cell.id + text for one, text in zip(own, factors, strict=True)])}")
    return [*lines, _count_line(comparisons)]


def _count_line(comparisons: Sequence[Comparison]) -> str:
    verdicts = Counter(one.verdict for one in comparisons)
    return "cells: " + ", ".join(f"{count_text(verdicts[name])} {name}" for name in Verdict if verdicts[name])


def _texts(one: Comparison) -> tuple[Text, ...]:
    code = "" if one.code in (Code.WITHIN, Code.BEYOND) else f" {one.code}"
    texts = (
        short_dtype(one.cell.dtype), count_text(one.cell.size), one.cell.backend, time_text(one.base_ns),
        time_text(one.head_ns), ratio_text(one.ratio), interval_text(one.low, one.high),
    )  # fmt: skip
    return (*map(Text, texts), Text(f"{one.verdict}{code}", _STYLES.get(one.verdict, Style.FAINT)))


def _notes(comparisons: Sequence[Comparison], base: Run, head: Run, interleaved: bool) -> list[str]:
    with_ratio = [one for one in comparisons if one.ratio is not None]
    smallest, _ = limits_in_force(sessions=not interleaved)
    platforms = sorted({run.device.platform for run in (base, head)})
    worth = ", ".join(f"{percent_text(smallest[name])}% on {name}" for name in platforms)
    notes = [
        "head/base: time of head divided by time of base, each the geometric mean over the pairs of processes; above 1"
        " head is slower"
        if interleaved
        else "sessions: the runs were recorded one after the other, and the machine may have changed between, so only"
        " large differences are decided; above 1 head is slower",
        f"worth a verdict: {worth}, or three standard errors of the cell",
    ]
    for side, run in (("base", base), ("head", head)):
        notes += [f"GPU before {side}: {doubt}" for doubt in gpu_doubts(run)]
        if run.host.load is not None:
            notes.append(f"load before {side}: {run.host.load:.2g} busy processes, {run.host.cores} cores")
    mean = geometric_mean([Ratio(one.ratio) for one in with_ratio if one.ratio])
    if mean.mean is None:
        notes.append("geometric mean: none, no cell was compared")
    else:
        slower = sum(one.verdict is Verdict.SLOWER for one in with_ratio)
        notes.append(
            f"geometric mean of the ratio: {ratio_text(mean.mean)} over {cells_text(mean.count)}; {count_text(slower)}"
            " SLOWER in head"
        )
    notes.append(_count_line(comparisons))
    for side, run in (("base", base), ("head", head)):
        changed = " with uncommitted changes" if run.source.dirty else ""
        notes.append(f"{side}: {_run_text(run)}{changed}, {run.device.kind}, {run.host.cpu}, started {run.started}")
    versions = [
        f"{name} {base.versions.get(name, 'absent')} → {head.versions.get(name, 'absent')}"
        for name in sorted({*base.versions, *head.versions})
        if base.versions.get(name) != head.versions.get(name)
    ]
    notes += ["versions that differ: " + ", ".join(versions)] if versions else []
    notes += rename_notes(comparisons)
    reasons: dict[tuple[Verdict, Code, str], list[str]] = defaultdict(list)
    for one in comparisons:
        if one.reason:
            reasons[one.verdict, one.code, shorten(one.reason)].append(one.cell.id)
    for (verdict, code, reason), ids in sorted(reasons.items()):
        some = ids[0] if len(ids) == 1 else cells_text(len(ids)) + ", first " + ids[0]
        notes.append(f"{verdict} {code}: {reason} ({some})")
    return notes


def _run_text(run: Run) -> str:
    return f"{run.run_id} (commit {run.source.commit[:12]})" if run.source.commit else run.run_id


def worst_first(group: str, one: Comparison) -> tuple[object, ...]:
    """Returns a sort key: wrong and slower cells first, then what is not decided, then the others."""
    where = group, dtype_order(one.cell.dtype), one.cell.size, one.cell.backend
    return _SEVERITY.index(one.verdict), -(one.ratio or 0) if one.is_bad or one.is_undecided else 0, *where


_SEVERITY = (
    Verdict.BROKEN, Verdict.SLOWER, Verdict.MISSING, Verdict.NOT_COMPARABLE, Verdict.UNSURE, Verdict.SAME,
    Verdict.FASTER, Verdict.FIXED, Verdict.NEW,
)  # fmt: skip
