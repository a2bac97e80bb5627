"""Makes the summary at the top of the page: the failures, the fastest cells, and the cells that became slower."""

from __future__ import annotations

import functools
from collections import Counter

from reports.pages.alike import are_interleaved
from reports.pages.compare import Comparison, compare
from reports.pages.failures import kernel_failures
from reports.pages.phrases import cells_text, outcome_counts
from reports.render.units import count_text
from reports.statistics.verdict_codes import Verdict
from reports.web.markup import Markup, element
from reports.web.run_choice import Choice, Results, RunKind

_OPEN = 5
"""Most kernels that failed before the reader opens the list."""


def tile_list(choice: Choice) -> Markup:
    """Returns the facts of the summary as a list of links: results, times and changes of each device."""
    return element("ul", {"class": "tiles"}, [*map(_cells, choice.shown), *map(_changes, choice.shown)])


def _tile(title: str, value: str, text: str, look: str, target: str) -> Markup:
    """Returns one fact: its title, its number, what explains it, `good`, `bad` or `plain`, and the id of a section."""
    return element("li", {"class": f"tile {look}"}, element("a", {"href": f"#{target}"},
                   element("span", {"class": "tile-title"}, title),
                   element("strong", {"class": "tile-value"}, value),
                   element("span", {"class": "tile-said"}, text)))  # fmt: skip


def failures(choice: Choice) -> Markup | None:
    """Returns a line for each kernel that failed: why, in which checks or cells, when, and the command to repeat it."""
    items = []
    for own in choice.shown:
        for kernel, text, command, started in kernel_failures(own.records):
            items.append(element("li", None, element("strong", {"class": "bad"}, kernel),
                                 f": {text} ({own.device}, {started[:10]})",
                                 element("code", {"class": "repeat"}, command)))  # fmt: skip
    if not items:
        return None
    cells = sum(row.status.failed for own in choice.shown for row in own.rows)
    heading = element("h3", None, f"Failed: {cells_text(cells)}")
    more = None
    if len(items) > _OPEN:
        summary = element("summary", None, f"{count_text(len(items) - _OPEN)} more kernels failed")
        more = element("details", {"class": "fold"}, summary, element("ul", None, items[_OPEN:]))
    return element("div", {"class": "list bad-list", "id": "failed"}, heading, element("ul", None, items[:_OPEN]), more)


@functools.lru_cache(maxsize=32)
def comparisons(own: Results) -> list[Comparison]:
    """Returns the comparison of the newest result of each cell with the one before it; of checks, the changes alone.

    A cell that the newest run of its selection no longer has is MISSING, and one that the run before did not have NEW.
    """
    before = {record.cell.versionless_key: record for record in (*own.earlier, *own.removed)}
    head = [record for record in own.records if record.cell.versionless_key in {*before, *own.added}]
    pairs = [(before.get(record.cell.versionless_key, record), record) for record in head]
    interleaved = all(are_interleaved(base.run, record.run) for base, record in pairs)
    # compare takes both lists as one run each, of which the last record of a cell counts.
    found = compare(before.values(), head, interleaved=interleaved) if head or before else []
    return [one for one in found if own.kind is RunKind.TIMES or one.base_status is not one.head_status]


def _cells(own: Results) -> Markup:
    counts = outcome_counts(row.status for row in own.rows)
    text = f"of {count_text(counts['passed'] + counts['failed'])} passed"
    text += f", {count_text(counts['skipped'])} skipped" if counts["skipped"] else ""
    if len(own.runs) > 1:
        text += f"; newest result of each cell, from {len(own.runs)} runs since {own.runs[0].started[:10]}"
    text += f"; {own.device}"
    what, target = ("Right results", "times") if own.kind is RunKind.TIMES else ("Checks", "verdicts")
    if counts["failed"]:
        passed = f"{count_text(counts['passed'])} {text}"
        return _tile(what, f"{count_text(counts['failed'])} failed", passed, "bad", "failed")
    # Without any passed cell the tile is not green.
    return _tile(what, count_text(counts["passed"]), text, "good" if counts["passed"] else "plain", target)


def _changes(own: Results) -> Markup | None:
    changes = comparisons(own)
    if not changes:
        return None
    counts = Counter(one.verdict for one in changes)
    words = [f"{count_text(counts[verdict])} {str(verdict).lower().replace('_', ' ')}" for verdict in Verdict
             if counts[verdict]]  # fmt: skip
    bad = sum(one.is_bad for one in changes)
    look = "bad" if bad else "plain" if any(one.is_undecided for one in changes) else "good"
    what = "Slower or broken" if own.kind is RunKind.TIMES else "Newly broken"
    text = f"{', '.join(words)}; since the result before; {own.device}"
    return _tile(what, count_text(bad), text, look, "changes")
