"""Shows from the source of a kernel that it may work in place: that an output may be the memory of an input.

That is so if every element of the input is read only by the thread, and in the iteration, that writes this element of
the output, and before it is written. :mod:`bridge.source.symbolic_run` runs the source with symbols for values.
Whatever is not understood counts against the kernel.
"""

from __future__ import annotations

from collections.abc import Sequence

from bridge.source.language_rules import LanguageRules, Source
from bridge.source.symbolic_run import SymbolicRun
from bridge.source.symbols import UNKNOWN, Array, Unclear


def in_place_pairs(
    source: Source | None, ranks: Sequence[int], input_count: int, rules: LanguageRules
) -> frozenset[tuple[int, int]]:
    """Pairs of an input and an output of a kernel that may share memory if they have one shape and dtype.

    Args:
        source: The function of the kernel, which takes inputs, then outputs; None if its code does something else.
        ranks: Rank of each array that it takes.
        input_count: How many of them are inputs.
        rules: What the language of the kernel makes of Python source.

    Returns:
        Pairs of input and output index; none if the source is not available, or not understood.
    """
    pairs = shareable_parameters(source, ranks, rules)
    return frozenset((one, other - input_count) for one, other in pairs if one < input_count <= other)


def shareable_parameters(
    source: Source | None, ranks: Sequence[int | None], rules: LanguageRules
) -> frozenset[tuple[int, int]]:
    """Pairs of parameters of a kernel, one that it only reads and one that it writes, which may share memory.

    Args:
        source: The function of the kernel; None if its code does something else.
        ranks: Rank of each parameter; None for one that is no array.
        rules: What the language of the kernel makes of Python source.
    """
    if source is None:
        return frozenset()
    run = SymbolicRun([rank or 0 for rank in ranks], rules)
    try:
        run.call(source, [UNKNOWN if rank is None else Array(index) for index, rank in enumerate(ranks)])
    except (Unclear, RecursionError):
        return frozenset()
    arrays = [index for index, rank in enumerate(ranks) if rank is not None]
    return frozenset(
        (one, other) for one in arrays for other in arrays if run.log.may_share(one, other, rules.counters)
    )
