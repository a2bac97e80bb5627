"""Makes the table and the frame of a comparison of two runs."""

from collections import Counter, defaultdict
from collections.abc import Sequence

import msgspec
import pandas as pd

from reports.pages.compare import Comparison
from reports.pages.groups import dtype_order, group_names
from reports.pages.phrases import cells_text, shorten
from reports.records.cell import short_dtype
from reports.records.header import Run
from reports.render.layout import Column, Row, Style, Table, Text
from reports.render.units import count_text, ratio_text, time_text
from reports.statistics.means import geometric_mean
from reports.statistics.verdict import Verdict


def comparison_table(comparisons: Sequence[Comparison], base: Run, head: Run) -> Table:
    """Returns medians, ratio and verdict of each cell. The notes say why cells were not compared."""
    columns = (
        *(Column("dtype", align="left"), Column("size"), Column("backend", align="left")),
        *(Column(name, "median per call") for name in ("base", "head", "ratio")),
        Column("", "verdict", align="left"),
    )
    # Cells are compared across versions of their operator.
    cells = [msgspec.structs.replace(comparison.cell, operator_version=0) for comparison in comparisons]
    named = sorted(zip(group_names(cells), comparisons, strict=True), key=lambda pair: _order(*pair))
    rows = tuple(Row(_texts(comparison), group) for group, comparison in named)
    title = f"Comparison of {base.run_id} (base) and {head.run_id} (head)"
    return Table(title, columns, rows, tuple(_notes(comparisons, base, head)), "operator")


def comparison_frame(comparisons: Sequence[Comparison]) -> pd.DataFrame:
    """Returns one row per cell: times in ns, `ratio` is head divided by base."""
    names = ("operator", "dtype", "size", "backend", "mode", "platform")
    rows = [
        {name: getattr(one.cell, name) for name in names}
        | {"base_ns": one.base_ns, "head_ns": one.head_ns, "ratio": one.ratio}
        | {"verdict": str(one.verdict), "reason": one.reason}
        for one in comparisons
    ]
    return pd.DataFrame(rows)


def _texts(comparison: Comparison) -> tuple[Text, ...]:
    cell, verdict = comparison.cell, comparison.verdict
    style = {Verdict.WRONG: Style.BAD, Verdict.MISSING: Style.BAD, Verdict.SAME: Style.PLAIN}
    return (
        Text(short_dtype(cell.dtype)),
        Text(count_text(cell.size)),
        Text(cell.backend),
        Text(time_text(comparison.base_ns)),
        Text(time_text(comparison.head_ns)),
        Text(ratio_text(comparison.ratio)),
        Text(verdict, style.get(verdict, Style.FAINT)),
    )


def _notes(comparisons: Sequence[Comparison], base: Run, head: Run) -> list[str]:
    mean = geometric_mean(comparison.ratio for comparison in comparisons)
    verdicts = Counter(comparison.verdict for comparison in comparisons)
    notes = ["ratio: head's median divided by base's, above 1 head is slower; noise is not judged"]
    if mean.mean is None:
        notes.append("geometric mean: none, no cell was compared")
    else:
        notes.append(
            f"geometric mean of the ratio: {ratio_text(mean.mean)} over {cells_text(mean.count)}"
            f" that passed on both sides; {count_text(mean.losses)} slower in head"
        )
    notes.append("cells: " + ", ".join(f"{count_text(verdicts[name])} {name}" for name in Verdict if verdicts[name]))
    notes += [f"{side}: {_run_text(run)}" for side, run in (("base", base), ("head", head))]
    versions = [
        f"{name} {base.versions.get(name, 'absent')} → {head.versions.get(name, 'absent')}"
        for name in sorted({*base.versions, *head.versions})
        if base.versions.get(name) != head.versions.get(name)
    ]
    if versions:
        notes.append("versions that differ: " + ", ".join(versions))
    reasons: dict[tuple[Verdict, str], list[str]] = defaultdict(list)
    for comparison in comparisons:
        if comparison.reason:
            reasons[comparison.verdict, shorten(comparison.reason)].append(comparison.cell.id)
    for (verdict, reason), ids in sorted(reasons.items()):
        notes.append(f"{verdict}: {reason} ({ids[0] if len(ids) == 1 else cells_text(len(ids)) + ', first ' + ids[0]})")
    return notes


def _run_text(run: Run) -> str:
    commit = run.source.commit[:12] if run.source.commit else "unknown"
    changed = " with uncommitted changes" if run.source.dirty else ""
    return f"commit {commit}{changed}, {run.device.kind}, {run.host.cpu}, started {run.started}"


def _order(group: str, comparison: Comparison) -> tuple[str, tuple[str, int], int, str]:
    return group, dtype_order(comparison.cell.dtype), comparison.cell.size, comparison.cell.backend
