"""Says first what matters: what is wrong, what is fastest where, what cannot be told apart, and what became slower."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from urllib.parse import urlencode

from reports.pages.alike import are_interleaved
from reports.pages.call_costs import TargetVerdict, targets
from reports.pages.compare import Comparison, compare
from reports.pages.first_places import Contest
from reports.pages.phrases import cells_text, outcome_counts, shorten
from reports.pages.rows import BASELINE, CellRow, backends_of
from reports.records.broken_kernels import survivors
from reports.records.record import last_by_cell
from reports.records.status import Status
from reports.render.units import count_text, ratio_text
from reports.statistics.verdict_codes import SMALLEST, Verdict
from reports.web.markup import Content, Markup, element
from reports.web.run_choice import ChosenRun, RunChoice, RunKind

_LISTED = 8
"""The failures, and the slower cells, that are named before a link leads to all of them."""


@dataclass(frozen=True, slots=True)
class Tile:
    """One fact of the summary.

    Attributes:
        title: What it is about.
        value: The number that is read first.
        said: What it means.
        look: `good`, `bad` or `plain`.
        target: Where its link leads: a fragment of the page.
    """

    title: str
    value: str
    said: str
    look: str
    target: str


def tiles(choice: RunChoice) -> list[Tile]:
    """Returns the facts of the summary: for each device, what was checked, timed, compared and measured."""
    made = []
    for run in choice.shown:
        match run.kind:
            case RunKind.TIMES:
                made += [_cells(run), *_speed(run), *_changes(run)]
            case RunKind.CHECKS | RunKind.ENDURANCE:
                made.append(_cells(run))
            case RunKind.MUTANTS:
                made.append(_mutants(run))
            case RunKind.CALLS:
                made.append(_calls(run))
    return made


def tile_list(made: Iterable[Tile]) -> Markup:
    """Returns the tiles as a list of links."""
    items = [
        element("li", {"class": f"tile {tile.look}"}, element("a", {"href": f"#{tile.target}"},
                element("span", {"class": "tile-title"}, tile.title),
                element("strong", {"class": "tile-value"}, tile.value),
                element("span", {"class": "tile-said"}, tile.said)))
        for tile in made
    ]  # fmt: skip
    return element("ul", {"class": "tiles"}, items)


def failures(choice: RunChoice) -> Markup | None:
    """Returns the cells that failed, with their reasons; broken kernels are meant to fail."""
    failed = [
        row for run in choice.shown if run.kind is not RunKind.MUTANTS for row in run.rows if row.status.failed
    ]  # fmt: skip
    if not failed:
        return None
    items: list[Content] = [
        element("li", None, element("strong", {"class": "bad"}, str(row.status)), " ",
                element("code", None, _name(row)), " ", shorten(str(row.record.reason)))
        for row in failed[:_LISTED]
    ]  # fmt: skip
    more = len(failed) - _LISTED
    link = element("a", {"href": f"#{urlencode({'at': 'cells', 'outcome': 'failed'})}"},
                   f"all {count_text(len(failed))} in the table" if more > 0 else "open them in the table")  # fmt: skip
    return element("div", {"class": "list bad-list"}, element("h3", None, f"Failed: {cells_text(len(failed))}"),
                   element("ul", None, items), element("p", None, link))  # fmt: skip


def slower(run: ChosenRun) -> Markup | None:
    """Returns the cells of a run that became slower than in the run before it."""
    found = [one for one in comparisons(run) if one.verdict is Verdict.SLOWER]
    if not found:
        return None
    found.sort(key=lambda one: -(one.ratio or 0.0))
    items = [
        element("li", None, element("code", None, one.cell.id), f" takes {ratio_text(one.ratio)} times as long")
        for one in found[:_LISTED]
    ]
    return element("div", {"class": "list bad-list"}, element("h3", None, f"Slower than before: {run.device}"),
                   element("ul", None, items),
                   element("p", None, element("a", {"href": "#changes"}, "all verdicts")))  # fmt: skip


@functools.lru_cache(maxsize=32)
def comparisons(run: ChosenRun) -> list[Comparison]:
    """Returns the comparison of a run with the run before it; empty without one."""
    if run.before is None:
        return []
    before = run.before_records
    interleaved = are_interleaved(before[-1].run, run.run)
    return compare(before, run.records, interleaved=interleaved)


def first_places(run: ChosenRun) -> Markup | None:
    """Returns, for each backend of a timed run, in how many contests it is the fastest, alone or tied."""
    found = run.contests
    if not found:
        return None
    alone = Counter(contest.winners[0].cell.backend for contest in found if not contest.is_tie)
    tied = Counter(row.cell.backend for contest in found if contest.is_tie for row in contest.winners)
    compared = Counter(row.cell.backend for row in run.rows if row.timing)
    names = sorted(backends_of(run.rows), key=lambda name: (-alone[name], -tied[name], name))
    lines = [
        element("tr", None, element("th", {"scope": "row", "class": "left"}, name),
                [element("td", {"class": "right"}, count_text(counts[name])) for counts in (alone, tied, compared)],
                element("td", {"class": "left"}, _where(name, found)))
        for name in names
        if alone[name] or tied[name]
    ]  # fmt: skip
    head = [("backend", "left"), ("fastest alone", "right"), ("tied first", "right"), ("timed cells", "right"),
            ("fastest at", "left")]  # fmt: skip
    title = f"Fastest on {run.device}"
    table = element("table", None, element("caption", {"class": "unseen"}, title),
                    element("thead", None, element("tr", None, [
                        element("th", {"scope": "col", "class": css}, word) for word, css in head])),
                    element("tbody", None, lines))  # fmt: skip
    return element("div", {"class": "block"}, element("h3", None, title),
                   element("div", {"class": "scroll", "tabindex": 0, "role": "region", "aria-label": title}, table),
                   element("p", {"class": "faint"}, f"{count_text(len(found))} contests: the backends of one operator, "
                           "dtype and size. Tied: they cannot be told apart."))  # fmt: skip


def _where(backend: str, found: Iterable[Contest]) -> str:
    """The operators at which a backend is the fastest alone, those with the most sizes first."""
    won = Counter(
        contest.winners[0].cell.operator
        for contest in found
        if not contest.is_tie and contest.winners[0].cell.backend == backend
    )
    names = [name for name, _ in won.most_common()]
    return ", ".join(names[:6]) + (f" and {len(names) - 6} more" if len(names) > 6 else "")


def _cells(run: ChosenRun) -> Tile:
    counts = outcome_counts(row.status for row in run.rows)
    made = counts["passed"] + counts["failed"]
    what = {RunKind.CHECKS: "Checks", RunKind.ENDURANCE: "Endurance"}.get(run.kind, "Right results")
    skipped = f", {count_text(counts['skipped'])} skipped" if counts["skipped"] else ""
    said = f"of {count_text(made)} passed{skipped}; {run.device}"
    if counts["failed"]:
        return Tile(what, f"{count_text(counts['failed'])} failed", f"{count_text(counts['passed'])} {said}", "bad",
                    urlencode({"at": "cells", "outcome": "failed"}))  # fmt: skip
    target = {RunKind.CHECKS: "verdicts", RunKind.ENDURANCE: "endurance"}.get(run.kind, "cells")
    return Tile(what, count_text(counts["passed"]), said, "good", target)


def _speed(run: ChosenRun) -> list[Tile]:
    """How many cells are faster than the baseline beyond their interval, and how the contests ended."""
    judged = [
        row for row in run.own_rows if row.cell.backend != BASELINE and row.compared and row.compared.low is not None
    ]
    made = []
    if judged:
        ties = sum(row.compared.is_tie(SMALLEST[row.cell.platform]) for row in judged if row.compared)
        apart = [
            row.compared for row in judged if row.compared and not row.compared.is_tie(SMALLEST[row.cell.platform])
        ]
        faster = sum(ratio.value < 1 for ratio in apart)
        said = (
            f"of {count_text(len(judged))} cells; {count_text(len(apart) - faster)} slower, {count_text(ties)} ties; "
        )
        made.append(Tile(f"Faster than {BASELINE}", count_text(faster), said + run.device, "plain", "ratios"))
    found = run.contests
    if found:
        alone = Counter(contest.winners[0].cell.backend for contest in found if not contest.is_tie)
        tied = sum(contest.is_tie for contest in found)
        if alone:
            name, count = alone.most_common(1)[0]
            said = f"fastest alone in {count} of {len(found)} contests, {tied} ties; {run.device}"
            made.append(Tile("Most first places", name, said, "plain", "fastest"))
    else:
        said = f"too few processes for an interval, or one backend; {run.device}"
        made.append(Tile("First places", "none", said, "plain", "times"))
    return made


def _changes(run: ChosenRun) -> list[Tile]:
    found = comparisons(run)
    if not found or run.before is None:
        return []
    counts = Counter(one.verdict for one in found)
    words = [f"{count_text(counts[verdict])} {str(verdict).lower().replace('_', ' ')}" for verdict in Verdict
             if counts[verdict] and verdict is not Verdict.SLOWER]  # fmt: skip
    count = counts[Verdict.SLOWER]
    said = f"{', '.join(words)}; since {run.before.run_id}"
    return [Tile("Became slower", count_text(count), said, "bad" if count else "good", "changes")]


def _mutants(run: ChosenRun) -> Tile:
    ran = {record.cell.operator for record in last_by_cell(run.records) if record.status is not Status.SKIPPED}
    alive = survivors(run.records)
    said = f"of {len(ran)} broken kernels caught; {run.device}"
    return Tile("Checks that work", count_text(len(ran) - len(alive)), said, "bad" if alive else "good", "mutants")


def _calls(run: ChosenRun) -> Tile:
    counts = Counter(target.verdict for target in targets(run.rows))
    missed = counts[TargetVerdict.MISSED]
    said = f"of {counts[TargetVerdict.MET] + missed} targets for the cost of a call met; {run.device}"
    return Tile("Cost of a call", count_text(counts[TargetVerdict.MET]), said, "bad" if missed else "good", "calls")


def _name(row: CellRow) -> str:
    values: Sequence[object] = list(row.cell.params.values())
    return " ".join([row.cell.id, *map(str, values)])
