"""Compares two sets of numbers by their ranks: exact tests, the shift between the sets, and its interval.

Nothing is assumed of the distribution but that, without a difference, all orders of the numbers are equally likely.
Sources: Mann and Whitney, "On a test of whether one of two random variables is stochastically larger than the other",
1947; Hodges and Lehmann, "Estimates of location based on rank tests", 1963.
"""

import functools
import math

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.float64]


@functools.cache
def pairs_tail(base: int, head: int) -> Numbers:
    """Returns P(U >= u) for u = 0 ... base * head: U counts pairs of numbers in which head's is greater.

    Counts orders of the numbers: either head's or base's number is the greatest of all, and the others are a smaller
    case. There are C(base + head, head) orders, and exactly one of them gives the greatest U.
    """
    orders = np.cumsum(_orders(base, head)[::-1])[::-1]
    return np.array([float(count) / math.comb(base + head, head) for count in orders])


def one_sided(base: Numbers, head: Numbers) -> tuple[Numbers, Numbers]:
    """Returns the exact p-values that head's numbers are greater, and that they are less, than base's.

    Args:
        base: One row per cell, one column per process.
        head: Likewise; the number of columns may differ.

    Equal numbers count against a difference, so ties make the p-values larger than they would be if chance broke them.
    """
    tail = pairs_tail(base.shape[1], head.shape[1])
    differences = _differences(base, head)
    return tail[(differences > 0).sum(axis=1)], tail[(differences < 0).sum(axis=1)]


def shift(base: Numbers, head: Numbers) -> Numbers:
    """Returns by how much head's numbers are greater: the median of all differences, by Hodges and Lehmann."""
    return np.median(_differences(base, head), axis=1)


def shift_interval(base: Numbers, head: Numbers, confidence: float = 0.95) -> tuple[Numbers, Numbers]:
    """Returns the ends of the exact interval of `shift`: the shifts that the two-sided exact test does not reject.

    With too few processes there is no such interval, and its ends are infinite; see `least_processes`.
    """
    pairs = base.shape[1] * head.shape[1]
    tail = pairs_tail(base.shape[1], head.shape[1])
    # The greatest number of differences that can be cut off at either end.
    cut = int((tail <= (1 - confidence) / 2).sum())
    if cut == 0:
        infinite = np.full(len(base), np.inf)
        return -infinite, infinite
    ordered = np.sort(_differences(base, head), axis=1)
    return ordered[:, cut - 1], ordered[:, pairs - cut]


def smallest_p(base: int, head: int) -> float:
    """Returns the smallest p-value that so many processes can give: 1 / C(base + head, head)."""
    return 1 / math.comb(base + head, head)


def least_processes(confidence: float = 0.95) -> int:
    """Returns how many processes of each side an interval needs: 4 for 95 %."""
    return next(n for n in range(1, 100) if smallest_p(n, n) <= (1 - confidence) / 2)


def processes_needed(cells: int, q: float) -> int:
    """Returns how many processes of each side can show that one cell of a comparison differs.

    The procedure of Benjamini and Hochberg makes 2 tests per cell, one for each direction. If only one cell differs,
    its p-value must be at most q / (2 * cells), and the smallest one is 1 / C(2n, n).

    Raises:
        ValueError: `cells` is below 1, or q is not between 0 and 1.
    """
    if cells < 1 or not 0 < q < 1:
        raise ValueError(f"cells={cells}, q={q}: expected at least one cell, and a share q between 0 and 1.")
    return next(n for n in range(1, 1000) if smallest_p(n, n) <= q / (2 * cells))


@functools.cache
def _orders(base: int, head: int) -> NDArray[np.object_]:
    """Returns the number of orders for each U, as whole numbers of any size."""
    counts = np.zeros(base * head + 1, dtype=object)
    if base == 0 or head == 0:
        counts[0] = 1
        return counts
    # The greatest number is head's, and then it is above all of base's; or it is base's, and adds no pair.
    counts[base:] += _orders(base, head - 1)
    counts[: (base - 1) * head + 1] += _orders(base - 1, head)
    return counts


def _differences(base: Numbers, head: Numbers) -> Numbers:
    differences: Numbers = (head[:, :, None] - base[:, None, :]).reshape(len(base), -1)
    return differences
