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
    """FASTER or SLOWER: the difference is significant, and worth a verdict."""
    SMALL = "SMALL"
    """UNSURE: there may be a small difference; a large one is ruled out."""
    NOISE = "NOISE"
    """UNSURE: the pairs differ too much to rule out a large difference."""
    FEW_PROCESSES = "FEW_PROCESSES"
    """UNSURE: fewer than three pairs."""
    NOT_STEADY = "NOT_STEADY"
    """NOT_COMPARABLE: in base or head, the program around the calls takes most of the time."""
    UNTIMED = "UNTIMED"
    """NOT_COMPARABLE: base or head has no time."""
    SKIPPED = "SKIPPED"
    """NOT_COMPARABLE, NEW or MISSING: base, head or both skipped the cell."""
    ABSENT = "ABSENT"
    """NEW or MISSING: base or head does not have the cell."""
    FAILED = "FAILED"
    """BROKEN: the cell is wrong in head. FIXED: it was wrong in base only."""
    UNJUDGED = "UNJUDGED"
    """NOT_COMPARABLE: base or head could not be judged, for example because memory was missing, or base crashed."""
    CONDITIONS = "CONDITIONS"
    """NOT_COMPARABLE: another machine, other threads, flags, method, cache, operator version, shapes or seed."""


TIE = {"cpu": 0.02, "cuda": 0.01}
"""By platform, the difference, as a share, below which two backends of one run are tied."""

SMALLEST = {"cpu": 0.05, "cuda": 0.015}
"""By platform, the smallest difference worth a verdict, as a share, if base and head were timed in pairs."""

LARGE = {"cpu": 0.10, "cuda": 0.03}
"""By platform, the difference that must not stay undecided."""

SMALLEST_APART = {"cpu": 0.20, "cuda": 0.10}
"""By platform, the smallest difference worth a verdict of two sessions, between which the machine may change."""

LARGE_APART = {"cpu": 0.30, "cuda": 0.15}
"""By platform, the difference of two sessions that must not stay undecided."""

FALSE_DISCOVERIES = 0.02
"""The share of false alarms among the cells called SLOWER, and among those called FASTER.

If nothing differs, at most 2 % of comparisons call some cell SLOWER, and at most 2 % call one FASTER.
"""
