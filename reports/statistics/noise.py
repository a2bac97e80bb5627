"""Measures the noise floor of a comparison: how far two sets of processes of the same code lie apart."""

import functools
import itertools
import math
import random

import numpy as np

from reports.statistics.ranks import Numbers, shift

_QUANTILE = 0.6827
"""Two in three comparisons of the same code stay below the floor: of a normal distribution, one standard deviation."""

_MOST_SPLITS = 64
"""More splits of the same processes add time and no knowledge."""


def noise_floor(base: Numbers, head: Numbers) -> Numbers:
    """Returns, for each cell, the size of the difference that chance alone makes between base and head.

    Splits the processes of base into two halves in every way (in 64 ways drawn once and for all, if there are far
    more), and head's likewise: both halves ran the same code. The floor is a quantile of the size of the shifts between
    halves, scaled from the sizes of the halves to the sizes of base and head: the variance of a difference of two means
    is in proportion to 1/n + 1/m.

    Args:
        base: Logarithms of times: one row per cell, one column per process.
        head: Likewise. Both sides are judged together, so a side that is noisier raises the floor of both.
    """
    whole = 1 / base.shape[1] + 1 / head.shape[1]
    sizes = []
    for side in (base, head):
        for one, other in _halves(side.shape[1]):
            scale = np.sqrt(whole / (1 / len(one) + 1 / len(other)))
            sizes.append(scale * np.abs(shift(side[:, one], side[:, other])))
    if not sizes:
        return np.full(len(base), np.inf)
    floor: Numbers = np.quantile(np.array(sizes), _QUANTILE, axis=0)
    return floor


@functools.cache
def _halves(count: int) -> list[tuple[list[int], list[int]]]:
    """Returns the splits of `count` processes into two halves; the second has one more if the number is odd."""
    small = count // 2
    if small == 0:
        return []
    if math.comb(count, small) > 2 * _MOST_SPLITS:
        draw = random.Random(count)
        chosen = {tuple(sorted(draw.sample(range(count), small))): None for _ in range(_MOST_SPLITS)}
    else:
        # Of an even number, each split into halves would come twice.
        chosen = {one: None for one in itertools.combinations(range(count), small) if count % 2 or 0 in one}
    return [(list(one), [place for place in range(count) if place not in one]) for one in chosen]
