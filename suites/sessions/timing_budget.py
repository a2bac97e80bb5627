"""Says how many processes time a selection, and for how long."""

from __future__ import annotations

from dataclasses import dataclass, replace

from suites.cells.selection import Selection


@dataclass(frozen=True)
class Budget:
    """The effort of a timing session.

    Attributes:
        processes: Fresh processes, each of which times every cell.
        turns: Turns of each process in a contest.
        seconds: How long the rounds of one cell should take in one turn.
    """

    processes: int
    turns: int
    seconds: float


_BUDGETS = {"quick": Budget(4, 2, 0.025), "full": Budget(5, 3, 0.1)}

_FOR_A_VERDICT = 6
"""So many processes of each side can show that one of nine cells has changed, see :mod:`reports.statistics.ranks`."""


def budget(selection: Selection) -> Budget:
    """Returns the effort for a selection: of its profile, with more processes where it names operators."""
    effort = _BUDGETS.get(selection.profile, _BUDGETS["full"])
    named = bool(selection.sources or selection.operators)
    return replace(effort, processes=max(effort.processes, _FOR_A_VERDICT)) if named else effort
