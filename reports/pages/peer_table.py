"""Makes the table that holds the fastest kernel of each cell beside the functions of other libraries."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from reports.pages.backend_grid import EMPTY, Placed, label_columns, label_texts, placed
from reports.pages.bandwidth_notes import is_impossible
from reports.pages.notes import reason_notes
from reports.pages.rows import BASELINE, CellRow, is_timed_alike
from reports.pages.run_notes import platform_name
from reports.render.layout import Column, Row, Style, Table, Text
from reports.render.units import ABSENT, TIED, interval_text, ratio_text, time_text
from reports.statistics.intervals import ratio_of
from reports.statistics.verdict_codes import SMALLEST

_XLA = "XLA"


@dataclass(frozen=True, slots=True)
class Beside:
    """The fastest kernel of a cell, and one library that computes the same.

    Attributes:
        kernel: The fastest kernel; None if none has a time.
        library: The cell of the library, or of XLA's own code.
        is_fastest: Whether it is the fastest of the libraries.
    """

    kernel: CellRow | None
    library: CellRow
    is_fastest: bool


def besides(rows: Sequence[CellRow]) -> list[Beside]:
    """Returns a pair for each library of each cell, and for XLA's own code; none for cells without a library.

    The fastest kernel is the one with the smallest median over the processes. Cells whose time is impossible, or
    decided by the program around the calls, are not compared.
    """
    groups: dict[tuple[object, ...], list[CellRow]] = {}
    for one in placed(rows):
        groups.setdefault((*one.order, one.row.cell.mode), []).append(one.row)
    found: list[Beside] = []
    for own in groups.values():
        if any(row.library for row in own):
            kernels = [row for row in own if not row.library and row.cell.backend != BASELINE]
            others = [row for row in own if row.library or row.cell.backend == BASELINE]
            kernel, first = _fastest(kernels), _fastest(others)
            found += [Beside(kernel, row, row is first) for row in sorted(others, key=_time_ns)]
    return found


def peer_tables(rows: Sequence[CellRow]) -> list[Table]:
    """Returns the table of a run in which other libraries were timed; else nothing."""
    pairs = besides(rows)
    if not pairs:
        return []
    places = {id(one.row): one for one in placed(rows)}
    labels = label_columns(rows)
    ratio = "kernel / library"
    columns = (
        *labels,
        Column("", "fastest kernel", align="left"),
        Column("time", "fastest kernel"),
        Column("", "library", align="left"),
        Column("time", "library"),
        Column("ratio", ratio, note=f"ratio: below 1, the kernel is faster; {TIED} where the two cannot be told apart"),
        Column("95%", ratio, drop=1, note="95%: interval of the ratio, Student's t across processes"),
    )
    lines, before = [], None
    for pair in pairs:
        one = places[id(pair.library)]
        lines.append(_line(pair, one, label_texts(one, labels), repeats=before == (one.order, pair.kernel)))
        before = one.order, pair.kernel
    notes = (
        "A kernel, XLA and each library take turns in the same processes; each result was checked. On a GPU a time is"
        " all work of the device for a call. On a CPU a library is called from Python, as a user calls it, and a kernel"
        " from a compiled loop.",
        *reason_notes([row for row in rows if row.library]),
    )
    title = f"Fastest kernels beside other libraries, on {platform_name(rows)}"
    return [Table(title, columns, tuple(lines), notes, "operator", best="fastest of the libraries")]


def _line(pair: Beside, one: Placed, labels: list[Text], *, repeats: bool) -> Row:
    kernel, library = pair.kernel, pair.library
    name = Text(library.library or f"{_XLA} ({BASELINE})", Style.BEST if pair.is_fastest else Style.PLAIN)
    if repeats:
        labels, ours = [EMPTY] * len(labels), [EMPTY, EMPTY]
    elif kernel is None or kernel.timing is None:
        ours = [Text(ABSENT, Style.FAINT), EMPTY]
    else:
        ours = [Text(kernel.cell.backend), Text(time_text(kernel.timing.median_ns))]
    if library.timing is None:
        theirs = Text(str(library.status), Style.BAD if library.status.failed else Style.FAINT)
        return Row((*labels, *ours, name, theirs, EMPTY, EMPTY), one.group)
    texts = [*labels, *ours, name, Text(time_text(library.timing.median_ns)), *_ratio(kernel, library)]
    return Row(tuple(texts), one.group)


def _ratio(kernel: CellRow | None, library: CellRow) -> tuple[Text, Text]:
    if kernel is None or kernel.timing is None or library.timing is None or not _counts(library):
        return Text(ABSENT), EMPTY
    if not is_timed_alike(kernel, library):
        return Text(ABSENT), EMPTY
    found = ratio_of(kernel.timing.medians_ns, library.timing.medians_ns)
    tied = TIED if found.is_tie(SMALLEST[kernel.cell.platform]) else ""
    return Text(tied + ratio_text(found.value)), Text(interval_text(found.low, found.high))


def _fastest(rows: Sequence[CellRow]) -> CellRow | None:
    return min((row for row in rows if _counts(row)), key=_time_ns, default=None)


def _counts(row: CellRow) -> bool:
    return row.timing is not None and row.timing.is_steady and not is_impossible(row)


def _time_ns(row: CellRow) -> float:
    return statistics.median(row.timing.medians_ns) if row.timing else float("inf")
