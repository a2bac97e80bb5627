"""Counts the roundings of a sum that is added up in blocks, as the suites' own kernels do it."""

from __future__ import annotations

BLOCK = 1024
"""Terms in a partial sum of the suites' own kernels."""


def blocked_terms(count: int) -> int:
    """The longest chain of roundings in a sum of ``count`` products that is added up in blocks of ``BLOCK``.

    A term passes through its own product, at most ``BLOCK - 1`` additions within its block, and one addition per block.
    """
    return min(count, BLOCK) + -(-count // BLOCK)
