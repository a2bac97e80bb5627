"""Summarises each kernel of a run in one number of a kind, and draws operators against backends as a heat map."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from urllib.parse import urlencode

from reports.pages.groups import group_names
from reports.pages.rows import BASELINE, CellRow, backends_of
from reports.render.units import ABSENT, TIED, TIMES, interval_text, percent_text, ratio_text
from reports.statistics.means import GeometricMean, mean_across_processes
from reports.web.markup import Content, Markup, element, joined


@dataclass(frozen=True, slots=True)
class KernelSummary:
    """One kernel of a run: an operator, its mode and parameters, and a backend.

    Attributes:
        label: Operator, mode and parameters.
        operator: The operator.
        backend: The backend.
        rows: Its cells.
        ratio: The geometric mean of its ratios to the baseline.
    """

    label: str
    operator: str
    backend: str
    rows: tuple[CellRow, ...]
    ratio: GeometricMean

    @property
    def budget(self) -> float | None:
        """The largest share of the error budget that an element used in any cell; NaN and infinities count most."""
        used = [row.record.accuracy.budget_used for row in self.rows if row.record.accuracy]
        known = [share for share in used if share is not None]
        return max((math.inf if math.isnan(share) else share for share in known), default=None)

    @property
    def roof(self) -> float | None:
        """The largest share of the measured bandwidth that it reached."""
        shares = [row.record.bandwidth_share for row in self.rows]
        return max((share for share in shares if share is not None), default=None)

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
    """Returns the kernels of the cells of one run, by label, then by backend.

    The checks of a validation differ in mode and case; there, a kernel is an operator on a backend.
    """
    is_timed = any(row.timing for row in rows)
    names = group_names([row.cell for row in rows]) if is_timed else [row.cell.operator for row in rows]
    found: dict[tuple[str, str], list[CellRow]] = {}
    for name, row in zip(names, rows, strict=True):
        found.setdefault((" \N{MIDDLE DOT} ".join(name.split("  ")), row.cell.backend), []).append(row)
    made = []
    for (label, backend), own in sorted(found.items()):
        compared = [row.compared for row in own if row.compared is not None]
        mean = mean_across_processes([ratio.paired or (ratio.value,) for ratio in compared])
        made.append(KernelSummary(label, own[0].cell.operator, backend, tuple(own), mean))
    return made


@dataclass(frozen=True, slots=True)
class Measure:
    """What a heat map shows.

    Attributes:
        name: Its name in one word.
        title: The words of the switch.
        read: The number of a kernel.
        text: The number in words, with its unit.
        steps: The upper end of each step of colour but the last; classes are numbered from 0.
        css: The class of its colours.
        legend: The words for the steps, from the first to the last.
        baseline: Whether the baseline has a number too.
    """

    name: str
    title: str
    read: Callable[[KernelSummary], float | None]
    text: Callable[[KernelSummary], str]
    steps: tuple[float, ...]
    css: str
    legend: tuple[str, ...]
    baseline: bool = True

    def step(self, value: float) -> int:
        """Returns the number of the step that a value lies in."""
        return sum(value > limit for limit in self.steps)

    def step_of(self, kernel: KernelSummary) -> int | None:
        """Returns the step of a kernel; None without a number. A kernel that may be as fast gets the middle step."""
        value = self.read(kernel)
        if value is None:
            return None
        return self.step(1.0) if self.name == "ratio" and kernel.is_even else self.step(value)


def _ratio_text(kernel: KernelSummary) -> str:
    if kernel.ratio.mean is None:
        return ABSENT
    return (TIED if kernel.is_even else "") + ratio_text(kernel.ratio.mean)


def _share_text(share: float | None) -> str:
    return ABSENT if share is None else f"{percent_text(share)}%"


RATIO = Measure(
    "ratio", f"Time {TIMES} {BASELINE}", lambda kernel: kernel.ratio.mean, _ratio_text,
    (0.5, 0.8, 0.95, 1.05, 1.25, 2.0), "ratio",
    ("at most 0.5: twice as fast", "0.8", "0.95", "about as fast", "1.25", "2", "above 2: half as fast"),
    baseline=False,
)  # fmt: skip
BUDGET = Measure(
    "budget", "Error budget used", lambda kernel: kernel.budget, lambda kernel: _share_text(kernel.budget),
    (0.01, 0.1, 0.5, 1.0), "budget", ("at most 1%", "10%", "50%", "100%", "above 100%: wrong"),
)  # fmt: skip
ROOF = Measure(
    "roof", "Share of the roof", lambda kernel: kernel.roof, lambda kernel: _share_text(kernel.roof),
    (0.1, 0.25, 0.5, 0.8), "roof", ("at most 10%", "25%", "50%", "80%", "above 80%"),
)  # fmt: skip
MEASURES = (RATIO, BUDGET, ROOF)


def heat_maps(found: Sequence[KernelSummary], device: str, group: str) -> Markup | None:
    """Returns the heat maps of the kernels of one run, with a switch between them; None without any number.

    Args:
        found: The kernels.
        device: The device, for the words that name a table.
        group: A name for the switch that no other one on the page has.
    """
    filled = [measure for measure in MEASURES if any(_shows(measure, kernel) for kernel in found)]
    if not filled:
        return None
    choices = [
        element("label", None, element("input", {
            "type": "radio", "name": group, "value": measure.name, "checked": measure is filled[0],
        }), element("span", None, measure.title))
        for measure in filled
    ]  # fmt: skip
    switch = element("fieldset", {"class": "switch", "data-switch": group}, element("legend", {"class": "unseen"},
                     "Number shown"), choices)  # fmt: skip
    panels = [
        element("div", {"class": "panel", "data-panel": f"{group}:{measure.name}"}, _heat_map(measure, found, device))
        for measure in filled
    ]
    return joined(switch if len(filled) > 1 else None, panels)


def _shows(measure: Measure, kernel: KernelSummary) -> bool:
    return (measure.baseline or kernel.backend != BASELINE) and measure.read(kernel) is not None


def _heat_map(measure: Measure, found: Sequence[KernelSummary], device: str) -> Markup:
    rows = [row for kernel in found for row in kernel.rows]
    backends = [name for name in backends_of(rows) if measure.baseline or name != BASELINE]
    by_place = {(kernel.label, kernel.backend): kernel for kernel in found}
    title = f"{measure.title} by operator and backend, {device}"
    head = element("tr", None, element("th", {"scope": "col", "class": "left"}, "operator"),
                   [element("th", {"scope": "col"}, name) for name in backends])  # fmt: skip
    lines = []
    for label in dict.fromkeys(kernel.label for kernel in found):
        cells = [_cell(measure, by_place.get((label, backend))) for backend in backends]
        lines.append(element("tr", None, element("th", {"scope": "row", "class": "left"}, label), cells))
    table = element("table", {"class": f"heat {measure.css}"}, element("caption", {"class": "unseen"}, title),
                    element("thead", None, head), element("tbody", None, lines))  # fmt: skip
    keys = [
        element("li", None, element("span", {"class": f"swatch step{place}", "aria-hidden": "true"}), words)
        for place, words in enumerate(measure.legend)
    ]
    said = {
        "ratio": f"Geometric mean over the sizes of a kernel; {TIED}: its 95% interval includes 1.",
        "budget": "Largest share of the derived error bound that an element used in any cell.",
        "roof": "Largest share of the bandwidth that this run measured for as much data.",
    }[measure.name]
    return element(
        "div", None,
        element("div", {"class": "scroll", "tabindex": 0, "role": "region", "aria-label": title}, table),
        element("ul", {"class": f"key {measure.css}"}, keys),
        element("p", {"class": "faint"}, said),
    )  # fmt: skip


def _cell(measure: Measure, kernel: KernelSummary | None) -> Markup:
    if kernel is None:
        return element("td", None, "")
    if kernel.failed and measure is not ROOF:
        return element("td", {"class": "wrong"}, _link(kernel, "failed", f"{kernel.failed} failed"))
    if not _shows(measure, kernel):
        skipped = all(not row.status.failed and row.timing is None and row.record.reason for row in kernel.rows)
        return element("td", {"class": "faint"}, "skipped" if skipped else ABSENT)
    more = f", 95% {interval_text(kernel.ratio.low, kernel.ratio.high)}" if measure is RATIO else ""
    said = f"{kernel.label}, {kernel.backend}: {measure.text(kernel)}{more}, {len(kernel.rows)} cells"
    return element("td", {"class": f"step{measure.step_of(kernel)}"}, _link(kernel, measure.text(kernel), said))


def _link(kernel: KernelSummary, text: Content, said: str) -> Markup:
    """A link to the cells of a kernel, in the table of the page."""
    target = urlencode({"at": "cells", "operator": kernel.operator, "backend": kernel.backend})
    return element("a", {"href": f"#{target}", "title": said}, text)
