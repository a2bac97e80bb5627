"""Summarises each kernel in one ratio, and draws operators against backends as a heat map."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from reports.pages.groups import group_names
from reports.pages.rows import BASELINE, CellRow, backends_of, mean_ratio
from reports.records.cell import short_dtype
from reports.render.units import ABSENT, TIED, interval_text, ratio_text
from reports.statistics.means import GeometricMean
from reports.web.html_tables import TURNED
from reports.web.markup import Markup, breakable, element

STEPS = (0.5, 0.8, 0.95, 1.05, 1.25, 2.0)
"""The upper end of each step of colour, except the last."""

LEGEND = ("up to 0.5: twice as fast", "to 0.8", "to 0.95", "as fast, or a tie", "to 1.25", "to 2",
          "above 2: half as fast")  # fmt: skip


@dataclass(frozen=True, slots=True)
class KernelSummary:
    """One kernel: an operator, its mode and parameters, and a backend.

    Attributes:
        label: Operator, mode and parameters; the dtype too, where there are several.
        backend: The backend.
        rows: Its cells.
        ratio: The geometric mean of its ratios to the baseline.
    """

    label: str
    backend: str
    rows: tuple[CellRow, ...]
    ratio: GeometricMean

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
    groups: dict[tuple[str, str], list[CellRow]] = {}
    without = ["cache"] if len({row.cell.params.get("cache") for row in rows}) == 1 else []
    is_mixed = len({row.cell.dtype for row in rows}) > 1
    for name, row in zip(group_names([row.cell for row in rows], without), rows, strict=True):
        parts = [*name.split("  "), *([short_dtype(row.cell.dtype)] if is_mixed else [])]
        groups.setdefault((" \N{MIDDLE DOT} ".join(parts), row.cell.backend), []).append(row)
    return [KernelSummary(*key, tuple(own), mean_ratio(own)) for key, own in sorted(groups.items())]


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
    title = f"Time divided by the time of {BASELINE}, by operator and backend, {device}"
    keys = [
        element("li", None, element("span", {"class": f"swatch step{index}", "aria-hidden": "true"}), words)
        for index, words in enumerate(LEGEND)
    ]
    note = (
        f"{title.partition(', by')[0]}: geometric mean over the sizes of a kernel. {TIED}: its 95% interval includes 1."
        " Below a number: how much older its oldest result is."
    )
    return [_table(summaries, backends, title, age), element("ul", {"class": "key ratio"}, keys),
            element("p", {"class": "faint"}, note)]  # fmt: skip


def _table(
    summaries: Sequence[KernelSummary], backends: Sequence[str], title: str, age: Callable[[CellRow], str]
) -> Markup:
    by_label: dict[str, dict[str, KernelSummary]] = {}
    for kernel in summaries:
        by_label.setdefault(kernel.label, {})[kernel.backend] = kernel
    names = [element("th", {"scope": "col", "class": "left"}, "operator")]
    names += [element("th", {"scope": "col"}, element("span", None, breakable(name))) for name in backends]
    head = element("tr", None, names)
    lines = []
    for label, own in by_label.items():
        lines.append(element("tr", None, element("th", {"scope": "row", "class": "left"}, breakable(label)),
                             [_cell(own.get(backend), backend, age) for backend in backends]))  # fmt: skip
    css = "heat ratio grid turned" if len(backends) + 1 > TURNED else "heat ratio grid"
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
    text_of = f"{kernel.label}, {backend}: {text}, 95% {interval_text(kernel.ratio.low, kernel.ratio.high)}"
    attributes = {"class": css, "data-label": backend, "title": f"{text_of}, {len(kernel.rows)} cells"}
    return element("td", attributes, text, element("small", None, old) if old else None)
