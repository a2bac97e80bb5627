"""Writes counts, lists of cells and reasons as parts of sentences."""

from collections import Counter
from collections.abc import Iterable, Sequence

from reports.records.status import Status
from reports.render.layout import Style, Text
from reports.render.units import count_text

_REASON_LENGTH = 240
_IDS_SHOWN = 3


def outcome_counts(statuses: Iterable[Status]) -> dict[str, int]:
    """Returns the numbers of cells that `passed`, `failed` and were `skipped`."""
    names = {Status.PASSED: "passed", Status.SKIPPED: "skipped"}
    outcomes = Counter(names.get(status, "failed") for status in statuses)
    return {name: outcomes[name] for name in ("passed", "failed", "skipped")}


def outcome_texts(statuses: Iterable[Status]) -> tuple[Text, Text, Text]:
    """Returns the same numbers as texts of a table."""
    passed, failed, skipped = outcome_counts(statuses).values()
    style = Style.BAD if failed else Style.PLAIN
    return Text(count_text(passed)), Text(count_text(failed), style), Text(count_text(skipped))


def cells_text(count: int) -> str:
    """Returns `1 cell` or `12 cells`."""
    return f"{count_text(count)} cell" + ("s" if count != 1 else "")


def ids_text(ids: Sequence[str]) -> str:
    """Returns the id of one cell, or the number of cells and the first few ids."""
    shown = ", ".join(ids[:_IDS_SHOWN]) + (", …" if len(ids) > _IDS_SHOWN else "")
    return shown if len(ids) == 1 else f"{cells_text(len(ids))}: {shown}"


def shorten(reason: str) -> str:
    """Returns a reason on one line; a long one without its end."""
    line = " ".join(reason.split())
    return line if len(line) <= _REASON_LENGTH else line[:_REASON_LENGTH].rstrip() + "…"


def counted(counts: Counter[str]) -> str:
    """Returns the names; if there are several, each with its number of cells."""
    if len(counts) == 1:
        return next(iter(counts))
    return "; ".join(f"{name} ({cells_text(count)})" for name, count in counts.most_common())


def span_text(low: int, high: int) -> str:
    """Returns `7`, or `7 to 9`."""
    return count_text(low) if low == high else f"{count_text(low)} to {count_text(high)}"
