"""Names the verdicts on a cell of two revisions, the codes of their reasons, and the limits that they depend on."""

from enum import StrEnum


class Verdict(StrEnum):
    """The verdict on one cell of two revisions."""

    SAME = "SAME"
    FASTER = "FASTER"
    SLOWER = "SLOWER"
    UNSURE = "UNSURE"
    NEW = "NEW"
    MISSING = "MISSING"
    NOT_COMPARABLE = "NOT_COMPARABLE"
    BROKEN = "BROKEN"
    FIXED = "FIXED"


class Code(StrEnum):
    """Why a cell has its verdict, in one word."""

    WITHIN = "WITHIN"
    """SAME: a difference worth a verdict is ruled out."""
    BEYOND = "BEYOND"
    """FASTER or SLOWER: the difference is shown, and worth a verdict."""
    SMALL = "SMALL"
    """UNSURE: there may be a small difference; a large one is ruled out."""
    NOISE = "NOISE"
    """UNSURE: the blocks differ too much to rule out a large difference."""
    FEW_PROCESSES = "FEW_PROCESSES"
    """UNSURE: fewer than three blocks."""
    NOT_STEADY = "NOT_STEADY"
    """NOT_COMPARABLE: the program around the calls, and not the calls, decides the time of one side."""
    UNTIMED = "UNTIMED"
    """NOT_COMPARABLE: a side has no time."""
    SKIPPED = "SKIPPED"
    """NOT_COMPARABLE, NEW or MISSING: a side, or both, skipped the cell."""
    ABSENT = "ABSENT"
    """NEW or MISSING: a side does not have the cell."""
    FAILED = "FAILED"
    """BROKEN: the cell is wrong in head. FIXED: it was wrong in base only."""
    UNJUDGED = "UNJUDGED"
    """NOT_COMPARABLE: a side could not be judged, for it found too little memory, say, or the base crashed."""
    CONDITIONS = "CONDITIONS"
    """NOT_COMPARABLE: another machine, other threads, flags, method, cache, operator version, shapes or seed."""


TIE = {"cpu": 0.02, "cuda": 0.01}
"""By platform, the difference, as a share, below which two backends of one run are tied."""

SMALLEST = {"cpu": 0.05, "cuda": 0.015}
"""By platform, the smallest difference worth a verdict, as a share, of base and head in blocks."""

LARGE = {"cpu": 0.10, "cuda": 0.03}
"""By platform, the difference that must not stay unseen."""

SMALLEST_APART = {"cpu": 0.20, "cuda": 0.10}
"""By platform, the smallest difference worth a verdict of two sessions: each has a state of the machine of its own."""

LARGE_APART = {"cpu": 0.30, "cuda": 0.15}
"""By platform, the difference of two sessions that must not stay unseen."""

FALSE_DISCOVERIES = 0.02
"""Of the cells called SLOWER, the share that may be so by chance, and likewise of those called FASTER.

If nothing differs, 2 % of comparisons call some cell SLOWER at most, and 2 % call one FASTER.
"""
