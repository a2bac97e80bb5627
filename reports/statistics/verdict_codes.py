"""Names the verdicts on a cell of two revisions, the codes of their reasons, and the limits that they depend on."""

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType


class Verdict(StrEnum):
    """The verdict on one cell of two revisions."""

    SAME = "SAME"
    FASTER = "FASTER"
    SLOWER = "SLOWER"
    UNSURE = "UNSURE"
    NEW = "NEW"
    MISSING = "MISSING"
    NOT_COMPARABLE = "NOT_COMPARABLE"
    WRONG = "WRONG"


class Code(StrEnum):
    """Why a cell has its verdict, in one word."""

    WITHIN = "WITHIN"
    """SAME: no difference was shown, and a difference worth a verdict is ruled out."""
    BEYOND = "BEYOND"
    """FASTER or SLOWER: the difference is significant and worth a verdict."""
    SMALL = "SMALL"
    """UNSURE: there may be a small difference; a large one is ruled out."""
    NOISE = "NOISE"
    """UNSURE: the processes differ too much to rule out a large difference."""
    FEW_PROCESSES = "FEW_PROCESSES"
    """UNSURE: with so few processes, no result could be significant."""
    BASELINE = "BASELINE"
    """UNSURE: the cell is the baseline of two separate sessions, which its own time cannot judge."""
    NO_BASELINE = "NO_BASELINE"
    """NOT_COMPARABLE: two separate sessions, and one has no time of the baseline."""
    NOT_STEADY = "NOT_STEADY"
    """NOT_COMPARABLE: the program around the calls, and not the calls, decides the time of one side."""
    UNTIMED = "UNTIMED"
    """NOT_COMPARABLE: a side has no time."""
    SKIPPED = "SKIPPED"
    """NOT_COMPARABLE, NEW or MISSING: a side, or both, skipped the cell."""
    ABSENT = "ABSENT"
    """NEW or MISSING: a side does not have the cell."""
    FAILED = "FAILED"
    """WRONG: the cell was wrong on a side, or on both."""
    UNJUDGED = "UNJUDGED"
    """NOT_COMPARABLE: a side could not be judged, such as a cell that found too little memory."""
    MACHINE = "MACHINE"
    """NOT_COMPARABLE: another machine or device."""
    THREADS = "THREADS"
    """NOT_COMPARABLE: other cores or numbers of threads."""
    FLAGS = "FLAGS"
    """NOT_COMPARABLE: other settings."""
    METHOD = "METHOD"
    """NOT_COMPARABLE: times were taken in another way."""
    CACHE = "CACHE"
    """NOT_COMPARABLE: the caches were in another state."""
    OPERATOR = "OPERATOR"
    """NOT_COMPARABLE: another version of the operator."""
    SHAPES = "SHAPES"
    """NOT_COMPARABLE: inputs of other shapes or dtypes."""
    SEED = "SEED"
    """NOT_COMPARABLE: inputs drawn from another seed."""


def _by_platform(cpu: float, cuda: float) -> Mapping[str, float]:
    return MappingProxyType({"cpu": cpu, "cuda": cuda})


SMALLEST = _by_platform(0.02, 0.01)
"""By platform, the smallest difference worth a verdict, as a share, of revisions whose processes alternated."""

SMALLEST_APART = _by_platform(0.10, 0.05)
"""The same for two sessions, one after the other: each has a state of the machine that its processes share."""

LARGE = _by_platform(0.10, 0.03)
"""By platform, the difference that a comparison promises to find. A cell that cannot rule it out is undecided."""

LARGE_APART = _by_platform(0.20, 0.10)
"""The same for two sessions."""

FALSE_DISCOVERIES = 0.02
"""Of the cells called FASTER or SLOWER, the share that may be so by chance.

If nothing differs, 2 % of comparisons call some cell FASTER or SLOWER at most, and 1 % call one SLOWER.
"""

ONLY: Mapping[str, tuple[Verdict, ...]] = MappingProxyType(
    {
        "slower": (Verdict.SLOWER,),
        "faster": (Verdict.FASTER,),
        "ties": (Verdict.SAME,),
        "unsure": (Verdict.UNSURE,),
        "failed": (Verdict.WRONG,),
        "missing": (Verdict.MISSING, Verdict.NEW, Verdict.NOT_COMPARABLE),
    }
)
"""The verdicts of the cells that a comparison shows on request, by the name of the choice."""
