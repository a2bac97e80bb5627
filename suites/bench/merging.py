"""Merges the results that several processes have of one cell into one result."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import msgspec

from reports import Cell, CellResult, Status, Timing


@dataclass(frozen=True)
class CellResults:
    """The results of one cell in the processes with one label, after its group was timed.

    Attributes:
        cell: The cell.
        checked: The result of the process that checked the cell, or the reason why no process can run it; None if
            there is neither.
        processes: The result of each process, in their order; None where the process did not time the cell.
    """

    cell: Cell
    checked: CellResult | None
    processes: list[CellResult | None] = field(default_factory=list)

    def merge(self) -> CellResult:
        """Returns one result, see :func:`merge_results`."""
        return merge_results(self.checked, [each for each in self.processes if each is not None])


def merge_results(checked: CellResult | None, timed: Sequence[CellResult]) -> CellResult:
    """Returns one result with the times of all processes.

    Args:
        checked: The result of the process that checked the cell; None if there is none.
        timed: The result of each process that timed the cell, with its times, in their order.

    Returns:
        The first failure, if there was one: a cell that fails in one process has no time. Processes whose times are
        noise are left out. If those are half of all processes or more, the cell is UNCHECKED.
    """
    results = [each for each in (checked, *timed) if each is not None]
    assert results
    failures = [each for each in results if each.status is not Status.PASSED]
    if failures:
        wrong = next((each for each in failures if each.status.wrong), failures[0])
        return _with_facts(msgspec.structs.replace(wrong, timing=None), results)
    times = [each.timing for each in timed if each.timing is not None]
    if 2 * len(times) <= len(timed) or not times:
        cause = next((each.reason for each in timed if each.reason), "no process timed this cell")
        reason = f"{cause} ({len(times)} of {len(timed)} processes have a time)"
        return _with_facts(
            msgspec.structs.replace(results[0], status=Status.UNCHECKED, reason=reason, timing=None), results
        )
    processes = [process for timing in times for process in timing.processes]
    stop = "; ".join(dict.fromkeys(timing.stop for timing in times))
    timing = Timing(method=times[0].method, cache=times[0].cache, processes=processes, stop=stop)
    return _with_facts(msgspec.structs.replace(results[0], timing=timing, reason=None), results)


def _with_facts(result: CellResult, results: Sequence[CellResult]) -> CellResult:
    """Adds the facts that only one of the processes measured."""
    facts = {}
    for name in ("accuracy", "stages", "resources", "bytes", "flops", "remarks", "arithmetic", "code_lines", "launch"):
        values = [value for each in results if (value := getattr(each, name)) is not None]
        facts[name] = values[0] if values else None
    roof = max(results, key=lambda each: each.bandwidth_limit or 0.0)
    facts |= {"bandwidth_limit": roof.bandwidth_limit, "bandwidth_limit_kind": roof.bandwidth_limit_kind}
    roofs = [each for each in results if each.roof_ns is not None]
    if roofs:
        fastest = min(roofs, key=lambda each: each.roof_ns or 0.0)
        facts |= {"roof_ns": fastest.roof_ns, "roof_kind": fastest.roof_kind}
    shapes = next((each for each in results if each.shapes), result)
    return msgspec.structs.replace(result, **facts, shapes=shapes.shapes, dtypes=shapes.dtypes)
