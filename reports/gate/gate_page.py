"""Makes the page of the gate: why a change does not pass, and every cell that is not as fast as before."""

from collections import Counter
from collections.abc import Sequence

import msgspec
import pandas as pd

from reports.gate.ruling import Effect, GateDecision, Ruling
from reports.options import Exit
from reports.pages.groups import dtype_order, group_names
from reports.pages.phrases import cells_text, shorten
from reports.records.cell import short_dtype
from reports.records.header import Run
from reports.render.layout import Column, Row, Style, Table, Text
from reports.render.page import Page
from reports.render.units import count_text, ratio_text, time_text
from reports.statistics.verdict_codes import Verdict

_RESULT = {
    Exit.FINE: Text("passes", Style.PLAIN),
    Exit.WRONG: Text("fails", Style.BAD),
    Exit.COULD_NOT_RUN: Text("could not decide", Style.BAD),
}

_STYLES = {
    Effect.FAILS: Style.BAD, Effect.UNSURE: Style.BAD, Effect.UNDECIDED: Style.BAD, Effect.EXCUSED: Style.FAINT,
    Effect.IDLE: Style.FAINT,
}  # fmt: skip


def gate_page(decision: GateDecision, base: Run, head: Run, notes: Sequence[str] = ()) -> Page:
    """Returns the page of the gate. Its frame has all cells; its tables leave out those that passed as SAME.

    Args:
        decision: The result.
        base: The header of the older side.
        head: The header of the newer side.
        notes: What else a reader should know.
    """
    return Page((_result_table(decision), _cell_table(decision, base, head, notes)), gate_frame(decision))


def gate_frame(decision: GateDecision) -> pd.DataFrame:
    """Returns one row per cell: times in ns, `ratio` is head divided by base, with its interval and the noise floor."""
    names = ("operator", "dtype", "size", "backend", "mode", "platform", "params_text")
    facts = ("base_ns", "head_ns", "ratio", "low", "high", "p", "floor", "worth")
    return pd.DataFrame(
        [
            {name.removesuffix("_text"): getattr(each.comparison.cell, name) for name in names}
            | {name: getattr(each.comparison, name) for name in facts}
            | {"verdict": str(each.comparison.verdict), "code": str(each.comparison.code), "effect": str(each.effect)}
            | {"reason": each.comparison.reason, "excuse": each.excuse.reason if each.excuse else None}
            for each in decision.rulings
        ]
    )


def _result_table(decision: GateDecision) -> Table:
    result = _RESULT[decision.exit]
    rows = [Row((Text("result"), result)), *(Row((Text("why"), Text(line, Style.BAD))) for line in decision.lines)]
    rows += [Row((Text("note"), Text(note))) for note in decision.notes]
    return Table("Gate", (Column("", align="left"), Column("", align="left")), tuple(rows), role="alarm")


def _cell_table(decision: GateDecision, base: Run, head: Run, notes: Sequence[str]) -> Table:
    columns = (
        *(Column("dtype", align="left"), Column("size"), Column("backend", align="left")),
        *(Column(name, "median per call") for name in ("base", "head")),
        Column("ratio", "head / base"),
        Column("interval", "head / base", note="interval: of the ratio, 95%; above 1 head is slower"),
        *(Column(name, "verdict", align="left") for name in ("verdict", "code", "effect")),
    )
    shown = [each for each in decision.rulings if not _is_quiet(each)]
    # Cells are compared across versions of their operator.
    cells = [msgspec.structs.replace(each.comparison.cell, operator_version=0) for each in shown]
    named = sorted(zip(group_names(cells), shown, strict=True), key=lambda pair: _order(*pair))
    rows = tuple(Row(_texts(each), group) for group, each in named)
    title = f"Cells that differ, or could not be compared: {_side(base)} (base), {_side(head)} (head)"
    return Table(title, columns, rows, (*_counts(decision), *notes, *_reasons(shown)), "operator")


def _is_quiet(ruling: Ruling) -> bool:
    return ruling.effect is Effect.IDLE or (
        ruling.effect is Effect.PASSES and ruling.comparison.verdict in (Verdict.SAME, Verdict.UNSURE)
    )


def _texts(ruling: Ruling) -> tuple[Text, ...]:
    one = ruling.comparison
    known = one.low is not None and one.high is not None
    style = _STYLES.get(ruling.effect, Style.PLAIN)
    return (
        Text(short_dtype(one.cell.dtype)),
        Text(count_text(one.cell.size)),
        Text(one.cell.backend),
        Text(time_text(one.base_ns)),
        Text(time_text(one.head_ns)),
        Text(ratio_text(one.ratio)),
        Text(f"{ratio_text(one.low)} to {ratio_text(one.high)}" if known else ""),
        Text(one.verdict, style),
        Text(one.code, style),
        Text(ruling.effect, style),
    )


def _counts(decision: GateDecision) -> list[str]:
    effects = Counter(each.effect for each in decision.rulings)
    verdicts = Counter(each.comparison.verdict for each in decision.rulings)
    return [
        "cells: " + ", ".join(f"{count_text(effects[name])} {name}" for name in Effect if effects[name]),
        "verdicts: " + ", ".join(f"{count_text(verdicts[name])} {name}" for name in Verdict if verdicts[name]),
    ]


def _reasons(shown: Sequence[Ruling]) -> list[str]:
    found: dict[tuple[str, str], list[str]] = {}
    for each in shown:
        if each.comparison.reason:
            key = (f"{each.comparison.verdict} ({each.comparison.code})", shorten(each.comparison.reason))
            found.setdefault(key, []).append(each.comparison.cell.id)
    return [
        f"{verdict}: {reason} ({ids[0] if len(ids) == 1 else cells_text(len(ids)) + ', first ' + ids[0]})"
        for (verdict, reason), ids in found.items()
    ]


def _side(run: Run) -> str:
    return f"commit {run.source.commit[:12]}" if run.source.commit else f"run {run.run_id}"


def _order(group: str, ruling: Ruling) -> tuple[str, tuple[str, int], int, str]:
    cell = ruling.comparison.cell
    return group, dtype_order(cell.dtype), cell.size, cell.backend
