"""Makes the table and the frame of a comparison of two runs."""

import math
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import replace

import msgspec
import pandas as pd

from reports.pages.compare import YARDSTICK, Comparison
from reports.pages.groups import dtype_order, group_names
from reports.pages.phrases import cells_text, shorten, span_text
from reports.records.cell import short_dtype
from reports.records.header import Run
from reports.render.layout import Column, Row, Style, Table, Text
from reports.render.units import ABSENT, count_text, interval_text, percent_text, ratio_text, time_text
from reports.statistics.means import geometric_mean
from reports.statistics.verdict_codes import ONLY, Code, Verdict

_STYLES = {
    Verdict.SAME: Style.PLAIN,
    Verdict.FASTER: Style.BEST,
    Verdict.SLOWER: Style.BAD,
    Verdict.WRONG: Style.BAD,
    Verdict.MISSING: Style.BAD,
}

_JUDGED = (Code.WITHIN, Code.BEYOND)


def arranged_comparisons(
    comparisons: Sequence[Comparison], sort: str | None, only: Sequence[str]
) -> list[Comparison] | None:
    """Returns the cells with the verdicts of `ONLY`, sorted; None if neither was asked for.

    Args:
        comparisons: What `compare` found.
        sort: `ratio` or `time` of head, the greatest first and unknown ones last; or `name`.
        only: Keys of `ONLY`; all cells if there is none.
    """
    if not sort and not only:
        return None
    wanted = {verdict for kind in only for verdict in ONLY[kind]}
    chosen = [one for _, one in _named(comparisons) if not only or one.verdict in wanted]
    if sort in ("ratio", "time"):
        chosen.sort(key=lambda one: -((one.ratio if sort == "ratio" else one.head_ns) or -math.inf))
    return chosen


def comparison_table(
    comparisons: Sequence[Comparison], base: Run, head: Run, *, interleaved: bool = False, notes: Sequence[str] = (),
    shown: Sequence[Comparison] | None = None,
) -> Table:  # fmt: skip
    """Returns times, ratio and verdict of each cell. The notes say why cells were not compared.

    Args:
        comparisons: What `compare` found.
        base: The header of base.
        head: The header of head.
        interleaved: Whether processes of both alternated, as for `compare`.
        notes: What the notes begin with.
        shown: The cells of the table in their order; all, by operator, by default. The notes are about all cells.
    """
    columns = (
        *(Column("dtype", align="left"), Column("size"), Column("backend", align="left")),
        *(Column(name, "time per call") for name in ("base", "head")),
        Column("head/base", "ratio"),
        Column("95%", "ratio", drop=1, note="95%: exact interval of the ratio"),
        Column(
            "worth%",
            "ratio",
            drop=2,
            note="worth%: the smallest difference worth a verdict in this cell: the smallest effect that counts, or"
            " three times its noise floor, in percent",
        ),
        Column("", "verdict", align="left"),
    )
    named = _named(comparisons)
    title = f"Comparison of {base.run_id} (base) and {head.run_id} (head)"
    said = (*notes, *_notes(comparisons, base, head, interleaved))
    if shown is not None:
        groups = {id(comparison): group for group, comparison in named}
        listed = tuple(Row((Text(groups[id(one)]), *_texts(one))) for one in shown)
        count = f"shown: {count_text(len(shown))} of {cells_text(len(comparisons))}"
        # A list has one more label. Times go before the table would be split from its verdicts.
        drops = {"base": 1, "head": 1, "95%": 2, "worth%": 3}
        fewer = tuple(replace(column, drop=drops.get(column.header, 0)) for column in columns)
        return Table(title, (Column("operator", align="left"), *fewer), listed, (count, *said), best="head is faster")
    rows = tuple(Row(_texts(comparison), group) for group, comparison in named)
    return Table(title, columns, rows, said, "operator", best="head is faster")


def _named(comparisons: Sequence[Comparison]) -> list[tuple[str, Comparison]]:
    """Returns each cell with the name of its group, in the order of the table."""
    # Cells are compared across versions of their operator.
    cells = [msgspec.structs.replace(comparison.cell, operator_version=0) for comparison in comparisons]
    return sorted(zip(group_names(cells), comparisons, strict=True), key=lambda pair: _order(*pair))


def comparison_frame(comparisons: Sequence[Comparison]) -> pd.DataFrame:
    """Returns one row per cell: times in ns, `ratio` is head divided by base, `floor` and `worth` are shares."""
    names = ("operator", "dtype", "size", "backend", "mode", "platform")
    numbers = ("base_ns", "head_ns", "ratio", "low", "high", "p", "floor", "worth")
    rows = [
        {name: getattr(one.cell, name) for name in names}
        | {"params": one.cell.params_text}
        | {name: getattr(one, name) for name in numbers}
        | {f"{side}_processes": one.processes and one.processes[place] for place, side in enumerate(("base", "head"))}
        | {f"{side}_status": _status(getattr(one, f"{side}_status")) for side in ("base", "head")}
        | {"verdict": str(one.verdict), "code": str(one.code), "reason": one.reason}
        for one in comparisons
    ]
    return pd.DataFrame(rows)


def _texts(comparison: Comparison) -> tuple[Text, ...]:
    cell, verdict = comparison.cell, comparison.verdict
    worth = ABSENT if comparison.worth is None else percent_text(comparison.worth)
    code = "" if comparison.code in _JUDGED else f" {comparison.code}"
    return (
        Text(short_dtype(cell.dtype)),
        Text(count_text(cell.size)),
        Text(cell.backend),
        Text(time_text(comparison.base_ns)),
        Text(time_text(comparison.head_ns)),
        Text(ratio_text(comparison.ratio)),
        Text(interval_text(comparison.low, comparison.high)),
        Text(worth),
        Text(f"{verdict}{code}", _STYLES.get(verdict, Style.FAINT)),
    )


def _notes(comparisons: Sequence[Comparison], base: Run, head: Run, interleaved: bool) -> list[str]:
    compared = [one for one in comparisons if one.ratio is not None]
    mean = geometric_mean(one.ratio for one in compared)
    if interleaved:
        notes = ["head/base: time of head divided by time of base, whose processes alternated; above 1 head is slower"]
    else:
        notes = [
            f"head/base: ratio of head to {YARDSTICK} divided by ratio of base to {YARDSTICK}, each in one process;"
            " above 1 head is slower. The runs took place one after the other: what the state of the machine does to a"
            f" kernel and not to {YARDSTICK} looks like a difference, so only large differences get a verdict"
        ]
    if mean.mean is None:
        notes.append("geometric mean: none, no cell was compared")
    else:
        slower = sum(one.verdict is Verdict.SLOWER for one in compared)
        notes.append(
            f"geometric mean of the ratio: {ratio_text(mean.mean)} over {cells_text(mean.count)}"
            f" that {'was' if mean.count == 1 else 'were'} compared; {count_text(slower)} SLOWER in head"
        )
    drift = geometric_mean(
        one.head_ns / one.base_ns for one in comparisons if one.code is Code.BASELINE and one.head_ns and one.base_ns
    )
    if drift.mean is not None:
        notes.append(f"time of {YARDSTICK} in head divided by base: {ratio_text(drift.mean)}, the state of the machine")
    verdicts = Counter(comparison.verdict for comparison in comparisons)
    notes.append("cells: " + ", ".join(f"{count_text(verdicts[name])} {name}" for name in Verdict if verdicts[name]))
    counts = [count for one in compared if one.processes for count in one.processes]
    if counts:
        notes.append(f"processes of each side: {span_text(min(counts), max(counts))}")
    notes += [f"{side}: {_run_text(run)}" for side, run in (("base", base), ("head", head))]
    versions = [
        f"{name} {base.versions.get(name, 'absent')} → {head.versions.get(name, 'absent')}"
        for name in sorted({*base.versions, *head.versions})
        if base.versions.get(name) != head.versions.get(name)
    ]
    if versions:
        notes.append("versions that differ: " + ", ".join(versions))
    reasons: dict[tuple[Verdict, Code, str], list[str]] = defaultdict(list)
    for comparison in comparisons:
        if comparison.reason:
            reasons[comparison.verdict, comparison.code, shorten(comparison.reason)].append(comparison.cell.id)
    for (verdict, code, reason), ids in sorted(reasons.items()):
        some = ids[0] if len(ids) == 1 else cells_text(len(ids)) + ", first " + ids[0]
        notes.append(f"{verdict} {code}: {reason} ({some})")
    return notes


def _run_text(run: Run) -> str:
    commit = run.source.commit[:12] if run.source.commit else "unknown"
    changed = " with uncommitted changes" if run.source.dirty else ""
    return f"commit {commit}{changed}, {run.device.kind}, {run.host.cpu}, started {run.started}"


def _status(status: object) -> str | None:
    return None if status is None else str(status)


def _order(group: str, comparison: Comparison) -> tuple[str, tuple[str, int], int, str]:
    return group, dtype_order(comparison.cell.dtype), comparison.cell.size, comparison.cell.backend
