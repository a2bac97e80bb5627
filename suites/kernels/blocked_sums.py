"""Holds the length of the blocks in which the suites' own kernels add up long sums."""

from __future__ import annotations

BLOCK = 1024
"""Terms in a partial sum of the suites' own kernels."""
