"""Lists survivors that somebody has read, each with the reason why it is no fault.

A mutant belongs here only if no caller can tell it from the right kernel within the documented error, at any size and
on any machine. A fault that the checks cannot see does not belong here: it is a survivor.
"""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True)
class Reviewed:
    """Mutants that are no faults. In each text, ``...`` stands for any code.

    Attributes:
        module: The last part of the name of the module.
        kind: The kind of the fault.
        before: The right code.
        after: The code that replaces it.
        why: Why nobody can tell the difference.
    """

    module: str
    kind: str
    before: str
    after: str
    why: str

    def covers(self, module: str, kind: str, before: str, after: str) -> bool:
        """Whether a mutant is one of these."""
        pairs = ((self.module, module), (self.kind, kind), (self.before, before), (self.after, after))
        return all(map(_fits, *zip(*pairs, strict=True)))


_ONE_THREAD = "both branches give results within the bound: the size only decides how many threads there are"
_TABLED = "both branches give the same results: the ratio only decides whether a table saves more than it costs"
_PARTS = "one part fewer only decides how many threads there are"
_WRAPPED = "an index below zero counts from the end of the block, which has four quarters: it is the same element"
_SAME_BITS = "after the shuffles all lanes of a warp have the same bits: each writes the same value to the same place"
_ROTATED = "the element before the first one is the last one: the sum has the same terms in another order"

REVIEWED: tuple[Reviewed, ...] = (
    Reviewed("...", "compare", "....size < ONE_THREAD_BELOW", "....size <= ONE_THREAD_BELOW", _ONE_THREAD),
    Reviewed("...", "compare", "....size < ONE_THREAD_BELOW", "....size > ONE_THREAD_BELOW", _ONE_THREAD),
    Reviewed("...", "guard", "....size < ONE_THREAD_BELOW...", "...", _ONE_THREAD),
    Reviewed("csr_binary_matvec", "...", "spikes.size <= FEW * data.size", "...", _TABLED),
    Reviewed("csr_binary_matvec", "guard", "is_tabled(data, spikes)", "...", _TABLED),
    Reviewed("...", "compare", "parts < 2", "parts <= 2", _PARTS),
    Reviewed("cumsum", "arithmetic", "i + 2 * QUARTER", "i - 2 * QUARTER", _WRAPPED),
    Reviewed("numba_cuda_warps", "guard", "place_in_block() % np.uint64(WARP) == np.uint64(0)", "True", _SAME_BITS),
    Reviewed("numba_cpu_blocks", "index", "x[i]", "x[i - 1]", _ROTATED),
)
"""All of them."""


def why_no_fault(module: str, kind: str, before: str, after: str) -> str | None:
    """Returns why a mutant is no fault; None if nobody has said so.

    Args:
        module: The last part of the name of the module.
        kind: The kind of the fault.
        before: The right code.
        after: The code that replaces it.
    """
    return next((each.why for each in REVIEWED if each.covers(module, kind, before, after)), None)


def _fits(pattern: str, text: str) -> bool:
    return re.fullmatch(".*".join(map(re.escape, pattern.split("..."))), text) is not None
