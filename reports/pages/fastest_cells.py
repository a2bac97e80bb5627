"""Finds the fastest cells of each group: the backends of one operator, mode, dtype and size."""

import statistics
from collections.abc import Iterable, Sequence

from reports.pages.bandwidth_notes import is_impossible
from reports.pages.rows import CellRow
from reports.records.cell import CellKey
from reports.records.measurements import Timing
from reports.statistics.intervals import LEAST, ratio_of
from reports.statistics.verdict_codes import TIE


def fastest_cells(rows: Iterable[CellRow]) -> dict[CellRow, bool]:
    """Returns the fastest cells, each with whether it is tied with others of its group.

    A group is two cells or more, timed in the same way by one run, without other libraries. It has no winner if its
    fastest time is impossible, or if a cell that is not steady may be faster.
    """
    groups: dict[CellKey, list[tuple[CellRow, Timing]]] = {}
    for row in rows:
        if row.timing and row.library is None:
            groups.setdefault(row.cell.group_key, []).append((row, row.timing))
    return {row: len(winners) > 1 for winners in map(_fastest_of, groups.values()) for row in winners}


def _fastest_of(contenders: list[tuple[CellRow, Timing]]) -> list[CellRow]:
    if len({(row.run.run_id, timing.method, timing.cache) for row, timing in contenders}) != 1:
        return []
    steady = [(row, timing) for row, timing in contenders if timing.is_steady]
    indices = fastest([timing.medians_ns for _, timing in steady], TIE[contenders[0][0].cell.platform])
    high = steady[indices[0]][1].high_ns if indices else 0.0
    if any(timing.low_ns <= high for _, timing in contenders if not timing.is_steady):
        return []
    winners = [steady[index][0] for index in indices]
    return [] if winners and is_impossible(winners[0]) else [row for row in winners if not is_impossible(row)]


def fastest(times: Sequence[Sequence[float]], smallest: float) -> list[int]:
    """Returns the indices of the fastest backend, and of all that are tied with it; the fastest comes first.

    Two are tied if the 95 % interval of their ratio includes 1, or if the ratio is nearer to 1 than the smallest
    effect. There is no fastest backend if one was measured in fewer than three processes, which gives no interval, or
    if there is only one backend.

    Args:
        times: For each backend, its time in each process; entry i of all is the same process.
        smallest: The smallest effect worth a verdict, as a share.
    """
    if len(times) < 2 or any(len(own) < LEAST for own in times):
        return []
    first = min(range(len(times)), key=lambda index: statistics.median(times[index]))
    others = [index for index in range(len(times)) if index != first]
    return [first, *(index for index in others if ratio_of(times[index], times[first]).is_tie(smallest))]
