"""Says how many processes time a selection, and for how long."""

from __future__ import annotations

from dataclasses import dataclass

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


def budget(selection: Selection) -> Budget:
    """Returns the effort for a selection: of its profile."""
    return _BUDGETS.get(selection.profile, _BUDGETS["full"])
