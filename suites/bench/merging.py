"""Merges what several processes know of one cell into one result."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import msgspec

from reports import Cell, CellResult, Status, Timing


@dataclass(frozen=True)
class Found:
    """What the processes of one side know of a cell after a contest.

    Attributes:
        cell: The cell.
        judged: What the process found that checked the cell, or why the cell was lost; None if nothing is known.
        processes: What each process found, in their order; None where it did not time the cell.
    """

    cell: Cell
    judged: CellResult | None
    processes: list[CellResult | None] = field(default_factory=list)

    def merged(self) -> CellResult:
        """Returns one result, see :func:`merged`."""
        return merged(self.judged, [each for each in self.processes if each is not None])


def merged(judged: CellResult | None, timed: Sequence[CellResult]) -> CellResult:
    """Returns one result with the times of all processes.

    Args:
        judged: What the process found that checked the cell; None if it was lost before.
        timed: What each process found, in their order; it holds the times of this process.

    Returns:
        The first failure, if there was one: a cell that fails in one process has no time. Processes in which noise hid
        the time are left out, unless they are half of all.
    """
    known = [each for each in (judged, *timed) if each is not None]
    assert known
    failed = [each for each in known if each.status is not Status.PASSED]
    if failed:
        wrong = next((each for each in failed if each.status.wrong), failed[0])
        return _with_facts(msgspec.structs.replace(wrong, timing=None), known)
    times = [each.timing for each in timed if each.timing is not None]
    if 2 * len(times) <= len(timed) or not times:
        said = next((each.reason for each in timed if each.reason), "no process timed this cell")
        reason = f"{said} ({len(times)} of {len(timed)} processes have a time)"
        return _with_facts(
            msgspec.structs.replace(known[0], status=Status.UNCHECKED, reason=reason, timing=None), known
        )
    processes = [process for timing in times for process in timing.processes]
    stop = "; ".join(dict.fromkeys(timing.stop for timing in times))
    timing = Timing(method=times[0].method, cache=times[0].cache, processes=processes, stop=stop)
    return _with_facts(msgspec.structs.replace(known[0], timing=timing, reason=None), known)


def _with_facts(result: CellResult, known: Sequence[CellResult]) -> CellResult:
    """Adds what only one of the processes measured."""
    facts = {}
    for name in ("accuracy", "stages", "resources", "hlo", "bytes", "flops", "remarks"):
        values = [value for each in known if (value := getattr(each, name)) is not None]
        facts[name] = values[0] if values else None
    roof = max(known, key=lambda each: each.bandwidth_limit or 0.0)
    facts |= {"bandwidth_limit": roof.bandwidth_limit, "bandwidth_limit_kind": roof.bandwidth_limit_kind}
    roofs = [each for each in known if each.roof_ns is not None]
    if roofs:
        fastest = min(roofs, key=lambda each: each.roof_ns or 0.0)
        facts |= {"roof_ns": fastest.roof_ns, "roof_kind": fastest.roof_kind}
    shapes = next((each for each in known if each.shapes), result)
    return msgspec.structs.replace(result, **facts, shapes=shapes.shapes, dtypes=shapes.dtypes)
