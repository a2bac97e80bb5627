"""Finds the fastest cells of each contest: the backends of one operator, mode, dtype and size."""

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from reports.pages.bandwidth_notes import is_impossible
from reports.pages.rows import CellRow
from reports.records.cell import CellKey
from reports.records.measurements import Timing
from reports.statistics.intervals import LEAST, ratio_of
from reports.statistics.verdict_codes import TIE


@dataclass(frozen=True, slots=True)
class Contest:
    """The cells of one contest that are the fastest: one alone, or several that cannot be told apart."""

    winners: tuple[CellRow, ...]

    @property
    def is_tie(self) -> bool:
        """Whether several share the first place."""
        return len(self.winners) > 1


def contests(rows: Iterable[CellRow]) -> dict[CellKey, Contest]:
    """Returns the contests that have a winner, by the key of a cell without its backend.

    A contest is two cells or more, timed in the same way by one run. Other libraries take no part. It has no winner if
    its fastest time is impossible, or if a cell whose time the program around the calls decides may be faster.
    """
    contenders: dict[CellKey, list[tuple[CellRow, Timing]]] = {}
    for row in rows:
        if row.timing and row.library is None:
            cell = row.cell
            key = cell.operator, cell.operator_version, cell.mode, cell.params_text, cell.dtype, cell.size
            contenders.setdefault(key, []).append((row, row.timing))
    found = {key: _contest(own) for key, own in contenders.items()}
    return {key: contest for key, contest in found.items() if contest.winners}


def _contest(contenders: list[tuple[CellRow, Timing]]) -> Contest:
    if len({(row.run.run_id, timing.method, timing.cache) for row, timing in contenders}) != 1:
        return Contest(())
    steady = [(row, timing) for row, timing in contenders if timing.is_steady]
    places = fastest([timing.medians_ns for _, timing in steady], TIE[contenders[0][0].cell.platform])
    if not places or is_impossible(steady[places[0]][0]):
        return Contest(())
    high = steady[places[0]][1].high_ns
    if any(timing.low_ns <= high for _, timing in contenders if not timing.is_steady):
        return Contest(())
    winners = (steady[place][0] for place in places)
    return Contest(tuple(row for row in winners if not is_impossible(row)))


def fastest(times: Sequence[Sequence[float]], smallest: float) -> list[int]:
    """Returns the places of the fastest, and of all that are tied with it; the fastest comes first.

    Two are tied if the 95 % interval of their ratio includes 1, or if the ratio is nearer to 1 than the smallest
    effect. Nobody is the fastest where somebody was measured in fewer than three processes, since no interval exists
    then, or where there is only one backend.

    Args:
        times: For each backend, its time in each process; entry i of all is the same process.
        smallest: The smallest effect worth a verdict, as a share.
    """
    if len(times) < 2 or any(len(own) < LEAST for own in times):
        return []
    first = min(range(len(times)), key=lambda place: statistics.median(times[place]))
    others = [place for place in range(len(times)) if place != first]
    return [first, *(place for place in others if ratio_of(times[place], times[first]).is_tie(smallest))]
