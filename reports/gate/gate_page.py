"""Makes the page of the gate: why a change does not pass, and every cell whose verdict is not SAME or UNSURE."""

from collections import Counter
from collections.abc import Sequence

from reports.gate.ruling import Effect, GateDecision, Ruling
from reports.options import Exit
from reports.pages.alike import are_interleaved
from reports.pages.compare_table import comparison_frame, comparison_table
from reports.records.header import Run
from reports.render.layout import Column, Style, Table, Text
from reports.render.page import Page
from reports.render.units import count_text
from reports.statistics.verdict_codes import Verdict

_RESULT = {Exit.FINE: "passes", Exit.WRONG: "fails", Exit.COULD_NOT_RUN: "could not decide"}

_STYLES = {Effect.PASSES: Style.PLAIN, Effect.EXCUSED: Style.FAINT, Effect.IDLE: Style.FAINT}


def gate_page(decision: GateDecision, base: Run, head: Run, notes: Sequence[str] = ()) -> Page:
    """Returns the page of the gate. Its frame has all cells; its tables leave out those that passed as SAME.

    Args:
        decision: The result.
        base: The header of the older run.
        head: The header of the newer run.
        notes: Further notes.
    """
    bad = Style.BAD if decision.exit else Style.PLAIN
    rows = [(Text("result"), Text(_RESULT[decision.exit], bad))]
    rows += [(Text("why"), Text(line, Style.BAD)) for line in decision.lines]
    rows += [(Text("note"), Text(note)) for note in decision.notes]
    result = Table("Gate", (Column("", align="left"), Column("", align="left")), tuple(rows), role="alarm")
    effects = Counter(each.effect for each in decision.rulings)
    summary = "gate: " + ", ".join(f"{count_text(effects[name])} {name}" for name in Effect if effects[name])
    comparisons = [each.comparison for each in decision.rulings]
    table = comparison_table(
        comparisons, base, head, interleaved=are_interleaved(base, head), notes=(summary, *notes),
        effects={id(each.comparison): Text(each.effect, _STYLES.get(each.effect, Style.BAD))
                 for each in decision.rulings if not _is_quiet(each)},
    )  # fmt: skip
    frame = comparison_frame(comparisons)
    frame["effect"] = [str(each.effect) for each in decision.rulings]
    frame["excuse"] = [each.excuse.reason if each.excuse else None for each in decision.rulings]
    return Page((result, table), frame)


def _is_quiet(ruling: Ruling) -> bool:
    return ruling.effect is Effect.IDLE or (
        ruling.effect is Effect.PASSES and ruling.comparison.verdict in (Verdict.SAME, Verdict.UNSURE)
    )
