"""Summarises each kernel in one ratio, finds the fastest ones, and draws operators against backends as a heat map."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from reports.pages.bandwidth_notes import is_impossible
from reports.pages.fastest_cells import fastest
from reports.pages.groups import group_names
from reports.pages.rows import BASELINE, CellRow, backends_of
from reports.records.cell import short_dtype
from reports.render.units import ABSENT, TIED, interval_text, ratio_text
from reports.statistics.intervals import ratio_of
from reports.statistics.means import GeometricMean, geometric_mean
from reports.statistics.verdict_codes import TIE
from reports.web.html_tables import TURNED
from reports.web.markup import Markup, breakable, element

STEPS = (0.5, 0.8, 0.95, 1.05, 1.25, 2.0)
"""The upper end of each step of colour, except the last."""

LEGEND = ("up to 0.5: twice as fast", "to 0.8", "to 0.95", "as fast, or a tie", "to 1.25", "to 2",
          "above 2: half as fast")  # fmt: skip

FASTEST = "the fastest"
"""What times are divided by where the baseline has none."""


@dataclass(frozen=True, slots=True)
class KernelSummary:
    """One kernel: an operator, its mode and parameters, and a backend.

    Attributes:
        label: Operator, mode and parameters; the dtype too, where there are several.
        backend: The backend.
        rows: Its cells.
        ratio: The geometric mean of its ratios to the baseline; without any, of those to the fastest kernel.
        over: What its times are divided by: `BASELINE` or `FASTEST`.
        is_fastest: Whether it is the fastest kernel of its label, or tied with it.
        is_least: Whether its times are the least, which too few processes may not prove.
    """

    label: str
    backend: str
    rows: tuple[CellRow, ...]
    ratio: GeometricMean
    over: str = BASELINE
    is_fastest: bool = False
    is_least: bool = False

    @property
    def failed(self) -> int:
        """The number of its cells that failed."""
        return sum(row.status.failed for row in self.rows)

    @property
    def is_even(self) -> bool:
        """Whether the interval of the mean includes 1."""
        low, high = self.ratio.low, self.ratio.high
        return low is not None and high is not None and low <= 1 <= high


def kernels(rows: Sequence[CellRow]) -> list[KernelSummary]:
    """Returns the kernels of timed cells, by label, then by backend."""
    groups: dict[str, dict[str, list[CellRow]]] = {}
    without = ["cache"] if len({row.cell.params.get("cache") for row in rows}) == 1 else []
    is_mixed = len({row.cell.dtype for row in rows}) > 1
    for name, row in zip(group_names([row.cell for row in rows], without), rows, strict=True):
        parts = [*name.split("  "), *([short_dtype(row.cell.dtype)] if is_mixed else [])]
        groups.setdefault(" \N{MIDDLE DOT} ".join(parts), {}).setdefault(row.cell.backend, []).append(row)
    return [kernel for label, own in sorted(groups.items()) for kernel in _of_label(label, own)]


def _of_label(label: str, own: Mapping[str, Sequence[CellRow]]) -> list[KernelSummary]:
    times = {backend: _times(rows) for backend, rows in own.items()}
    first, winners = _fastest(own, times)
    over = BASELINE if any(row.compared for rows in own.values() for row in rows) else FASTEST
    summaries = []
    for backend, rows in sorted(own.items()):
        if over == FASTEST and first is not None and len(own) > 1:
            shared = [key for key in times[backend] if key in times[first]]
            pairs = [(ratio_of(times[backend][key], times[first][key]), key[0]) for key in shared]
        else:
            pairs = [(row.compared, row.run.run_id) for row in rows if row.compared]
        mean = geometric_mean([ratio for ratio, _ in pairs], [session for _, session in pairs])
        is_least = backend == first and len(own) > 1
        summaries.append(KernelSummary(label, backend, tuple(rows), mean, over, backend in winners, is_least))
    return summaries


Times = dict[tuple[str, ...], list[float]]
"""The time of each cell of a kernel in each process, by what it shares with cells of other kernels."""


def _times(rows: Sequence[CellRow]) -> Times:
    return {
        (row.run.run_id, row.cell.dtype, str(row.cell.size), row.cell.params_text, own.method, own.cache):
            own.medians_ns for row in rows if (own := row.timing) and own.is_steady
    }  # fmt: skip


def _fastest(own: Mapping[str, Sequence[CellRow]], times: Mapping[str, Times]) -> tuple[str | None, list[str]]:
    """Returns the backend with the least times, and all that are the fastest: several if they are tied.

    Only a backend that passed with a time of every cell takes part, and no other library. If one was measured in fewer
    than three processes, if there is no other, or if the least times are impossible, none is called fastest.
    """
    rivals = {name for name, rows in own.items() if not any(row.status.failed or row.library for row in rows)}
    cells = {key for name in rivals for key in times[name]}
    names = sorted(name for name in rivals if cells and len(times[name]) == len(cells))
    if not names:
        return None, []
    # In each process, the cells of a kernel have one geometric mean.
    means = [[statistics.geometric_mean(one) for one in zip(*times[name].values(), strict=False)] for name in names]
    first = names[min(range(len(names)), key=lambda index: statistics.median(means[index]))]
    if any(map(is_impossible, own[first])):
        return None, []
    return first, [names[index] for index in fastest(means, TIE[own[first][0].cell.platform])]


def heat_map(summaries: Sequence[KernelSummary], device: str, age: Callable[[CellRow], str]) -> list[Markup]:
    """Returns the heat map of the kernels of one device.

    Args:
        summaries: The kernels.
        device: The device, for the title.
        age: Returns how much older a result is than the newest ones.
    """
    if not any(kernel.ratio.mean is not None or kernel.failed for kernel in summaries):
        return []
    # The baseline has no ratio, so it has a column only if it failed.
    shown = [kernel for kernel in summaries if kernel.backend != BASELINE or kernel.failed]
    backends = backends_of([row for kernel in shown for row in kernel.rows])
    overs = sorted({kernel.over for kernel in summaries if kernel.ratio.mean is not None}) or [BASELINE]
    title = f"Time divided by the time of {' or '.join(overs)}, by operator and backend, {device}"
    keys = [
        element("li", None, element("span", {"class": f"swatch step{index}", "aria-hidden": "true"}), words)
        for index, words in enumerate(LEGEND)
    ]
    note = (
        f"{title.partition(', by')[0]}: geometric mean over the sizes of a kernel. {TIED}: its 95% interval includes 1."
        f" {STAR}: the fastest of its row, or tied with it, of the backends (not other libraries) that passed at every"
        " size, in three processes or more; with ? the least times of fewer processes. Below a number: how much older"
        " its oldest result is."
    )
    return [_table(summaries, backends, title, age), element("ul", {"class": "key ratio"}, keys),
            element("p", {"class": "faint"}, note)]  # fmt: skip


STAR = "\N{BLACK STAR}"


def _table(
    summaries: Sequence[KernelSummary], backends: Sequence[str], title: str, age: Callable[[CellRow], str]
) -> Markup:
    by_label: dict[str, dict[str, KernelSummary]] = {}
    for kernel in summaries:
        by_label.setdefault(kernel.label, {})[kernel.backend] = kernel
    names = [element("th", {"scope": "col", "class": f"left {name}"}, name) for name in ("operator", "fastest")]
    names += [element("th", {"scope": "col"}, element("span", None, breakable(name))) for name in backends]
    head = element("tr", None, names)
    lines = []
    for label, own in by_label.items():
        winners = [name for name, kernel in own.items() if kernel.is_fastest]
        least = next((f"{name}?" for name, kernel in own.items() if kernel.is_least), ABSENT)
        said = f"{'tie: ' if len(winners) > 1 else ''}{', '.join(winners) or least}"
        lines.append(element("tr", None, element("th", {"scope": "row", "class": "left"}, breakable(label)),
                             element("td", {"class": "left fastest", "data-label": "fastest"}, breakable(said)),
                             [_cell(own.get(backend), backend, age) for backend in backends]))  # fmt: skip
    css = "heat ratio grid turned" if len(backends) + 2 > TURNED else "heat ratio grid"
    table = element("table", {"class": css}, element("caption", {"class": "unseen"}, title),
                    element("thead", None, head), element("tbody", None, lines))  # fmt: skip
    return element("div", {"class": "scroll", "tabindex": 0, "role": "region", "aria-label": title}, table)


def _cell(kernel: KernelSummary | None, backend: str, age: Callable[[CellRow], str]) -> Markup:
    if kernel is None:
        return element("td", None, "")
    mean = kernel.ratio.mean
    old = max((age(row) for row in kernel.rows), key=lambda text: int(text.split()[0]) if text else 0)
    if kernel.failed:
        css, text = "wrong", f"{kernel.failed} failed"
    elif mean is None:
        skipped = all(row.timing is None and row.record.reason for row in kernel.rows)
        return element("td", {"class": "faint", "data-label": backend}, "skipped" if skipped else ABSENT)
    else:
        # A kernel that may be as fast as the baseline gets the middle step.
        css = f"step{sum((1.0 if kernel.is_even else mean) > limit for limit in STEPS)}"
        text = (TIED if kernel.is_even else "") + ratio_text(mean)
    if kernel.is_fastest:
        css, text = f"{css} winner", f"{STAR} {text}"
    text_of = f"{kernel.label}, {backend}: {text}, 95% {interval_text(kernel.ratio.low, kernel.ratio.high)}"
    attributes = {"class": css, "data-label": backend, "title": f"{text_of}, {len(kernel.rows)} cells"}
    return element("td", attributes, text, element("small", None, old) if old else None)
