"""Finds the places at which a series of measurements changed its level.

Nothing is assumed of the noise but that, without a change, all orders of the numbers are equally likely. Sources: ranks
on both sides of a split, Pettitt, "A non-parametric approach to the change-point problem", 1979; intervals of several
lengths, so that a change that was undone later is found too, Kovács, Li, Bühlmann and Munk, "Seeded binary
segmentation", 2023; the narrowest interval that shows a change, Baranowski, Chen and Fryzlewicz,
"Narrowest-over-threshold detection of multiple change points and change-point-like features", 2019. Over many series,
the share of false discoveries is controlled by the procedure of Benjamini and Hochberg.
"""

import functools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from reports.statistics.ranks import Numbers

LEAST = 3
"""Numbers on each side of a change: fewer cannot be told from chance."""

LEVEL = 0.01
"""The share of series that may show a change by chance if nothing ever changes."""

_EXACT = 20
"""Up to so many numbers on the shorter side of a split, its p-value is exact."""

_ORDERS = 20_000
"""Random orders that give the distribution without a change, of a short series."""

_NUMBERS = 600_000
"""Numbers in these orders at most: a long series gets fewer orders, but at least `_FEWEST`."""

_FEWEST = 2000

_COUNTED = 10
"""A p-value is counted among the random orders where at least so many reach it; beyond, it is a bound."""


@dataclass(frozen=True, slots=True)
class Shift:
    """A change of level.

    Attributes:
        place: The number of the first measurement after the change, from 0.
        size: The difference after minus before: the median of all differences, by Hodges and Lehmann.
        low: The lower end of its 95 % interval; minus infinity with too few numbers.
        high: The upper end.
    """

    place: int
    size: float
    low: float
    high: float


def changes(series: Sequence[Numbers], smallest: Sequence[float], level: float = LEVEL) -> list[list[Shift]]:
    """Returns the changes of level of each series, in their order.

    A series shows a change if its clearest split, in an interval around it, is clearer than in all but a share `level`
    of random orders of as many numbers. The procedure of Benjamini and Hochberg makes this share smaller where many
    series show none. A change counts only if the whole 95 % interval of its size lies beyond the smallest one that is
    worth it; without an interval, the size itself.

    Args:
        series: Numbers in the order in which they were measured; of times, their logarithms.
        smallest: For each series, the smallest change worth a mention, above or at zero.
        level: The share of false discoveries, and of series that show a change by chance, between 0 and 1.
    """
    found: list[list[Shift]] = [[] for _ in series]
    by_length: dict[int, list[int]] = {}
    for place, numbers in enumerate(series):
        if len(numbers) >= 2 * LEAST:
            by_length.setdefault(len(numbers), []).append(place)
    p_values: dict[int, float] = {}
    for length, own in by_length.items():
        clearness = _scan(np.stack([series[one] for one in own])).max(axis=1)
        p_values |= dict(zip(own, map(float, _p_values(clearness, length, level)), strict=True))
    threshold = _threshold(list(p_values.values()), len(series), level)
    for place, p in p_values.items():
        if p <= threshold:
            found[place] = _worth_it(series[place], _places(series[place], threshold), smallest[place])
    return found


def shift_at(before: Numbers, after: Numbers, confidence: float = 0.95) -> tuple[float, float, float]:
    """Returns the difference of two sets of numbers, after minus before, and the ends of its interval.

    The interval holds the differences that the test of Mann and Whitney does not reject. It is infinite with too few
    numbers.
    """
    differences = np.sort((after[:, None] - before[None, :]).ravel())
    # U below this many pairs is rejected: what can be cut off at each end.
    tails = _tails(len(before), len(after))
    cut = int((tails <= (1 - confidence) / 2).sum())
    if cut == 0:
        return float(np.median(differences)), -math.inf, math.inf
    return float(np.median(differences)), float(differences[cut - 1]), float(differences[-cut])


@functools.cache
def intervals(length: int) -> tuple[tuple[int, NDArray[np.int64]], ...]:
    """Returns the seeded intervals of a series: for each width, from the widest, the numbers at which they begin.

    Each width is half of the one before, and neighbours overlap by half.
    """
    found = []
    layer = 0
    while (width := math.ceil(length / 2**layer)) >= 2 * LEAST:
        count = 2 ** (layer + 1) - 1
        starts = np.unique(np.round(np.linspace(0, length - width, count)).astype(np.int64))
        found.append((width, starts))
        layer += 1
    return tuple(found)


def _scan(rows: Numbers) -> Numbers:
    """Returns, for each series and interval, how clear its clearest split is.

    Clear is minus the logarithm of the two-sided p-value of a split by Mann and Whitney.

    Args:
        rows: One row per series of equal length.
    """
    clearness = []
    for width, starts in intervals(rows.shape[1]):
        beyond, deviation = _pairs(rows[:, starts[:, None] + np.arange(width)])
        clearness.append(_clearness(beyond, deviation, width).max(axis=-1))
    return np.concatenate(clearness, axis=1)


def _pairs(windows: Numbers) -> tuple[Numbers, Numbers]:
    """Returns by how many pairs each split is away from half of all, and the standard deviation of this number.

    A pair is one number before and one after the split, of which the second is greater. The last axis becomes the
    split, from `LEAST` on. Equal numbers have the mean of their ranks.
    """
    from scipy.stats import rankdata

    width = windows.shape[-1]
    first = np.arange(LEAST, width - LEAST + 1)
    sums = np.cumsum(rankdata(windows, axis=-1), axis=-1)[..., first - 1]
    pairs = first * (width - first)
    return np.abs(sums - first * (first + 1) / 2 - pairs / 2), np.sqrt(pairs * (width + 1) / 12)


def _clearness(beyond: Numbers, deviation: Numbers, width: int) -> Numbers:
    """Returns minus the logarithm of the p-value of each split. A half pair counts against a difference."""
    from scipy.special import log_ndtr

    # The half is the correction for continuity: with it, the normal distribution never makes a rare order rarer.
    normal = -(math.log(2) + log_ndtr(-(beyond - 0.5) / deviation))
    clear: Numbers = np.where(beyond > 0.5, np.maximum(normal, 0), 0.0)
    for split in range(clear.shape[-1]):
        few, many = sorted((split + LEAST, width - split - LEAST))
        if few <= _EXACT:
            clear[..., split] = _two_sided(few, many)[np.floor(few * many / 2 + beyond[..., split] + 1e-9).astype(int)]
    return clear


@functools.cache
def _two_sided(few: int, many: int) -> Numbers:
    """Returns minus the logarithm of the two-sided p-value for U = 0 ... few * many, in its upper half."""
    logs: Numbers = -np.log(np.minimum(2 * _tails(few, many), 1))
    return np.maximum(logs, 0)


def _tails(one: int, other: int) -> Numbers:
    """Returns P(U >= u) for u = 0 ... one * other: exact, or normal where both sides are large."""
    few, many = sorted((one, other))
    if few <= _EXACT:
        return _exact_tails(few, many)
    from scipy.special import ndtr

    u = np.arange(one * other + 1)
    deviation = math.sqrt(one * other * (one + other + 1) / 12)
    return np.asarray(ndtr(-(u - one * other / 2 - 0.5) / deviation))


@functools.cache
def _exact_tails(few: int, many: int) -> Numbers:
    """Returns P(U >= u) exactly, to the precision of float64: counts the orders by their number of pairs.

    The number of orders is a Gaussian binomial coefficient: the product of (1 - x^(many + i)) / (1 - x^i) over
    i = 1 ... few, as a polynomial of U. It is symmetric, so only its lower half is computed, in whole numbers.
    """
    most = few * many
    half = most // 2
    counts = [1] + [0] * half
    for i in range(1, few + 1):
        for u in range(i, half + 1):
            counts[u] += counts[u - i]
        for u in range(half, many + i - 1, -1):
            counts[u] -= counts[u - many - i]
    # counts[u] is the number of orders with U = u, and also with U = most - u.
    total = math.comb(few + many, few)
    tail = np.empty(most + 1)
    below = 0
    for u in range(half + 1):
        tail[u] = (total - below) / total
        below += counts[u]
        tail[most - u] = below / total
    return tail


def _p_values(clearness: Numbers, length: int, level: float) -> Numbers:
    """Returns the p-value of a clearness: the chance that any split of any interval of a series is as clear.

    It is counted among random orders, plus a standard error of the count. Where few of these are as clear, it is at
    most the sum of the chances of all splits. Above `level`, all p-values are 1: nobody needs them.
    """
    clearness = np.asarray(clearness)
    p = np.ones(clearness.shape)
    rare = np.exp(-clearness) <= level
    if not rare.any():
        return p
    drawn = _without_change(_rounded(length))
    reached = len(drawn) - np.searchsorted(drawn, clearness[rare] - 1e-9)
    counted = (1 + reached + np.sqrt(reached)) / (1 + len(drawn))
    few = reached < _COUNTED
    if few.any():
        bounds = {one: _bound(one, length) for one in np.unique(clearness[rare][few])}
        counted[few] = [min((1 + _COUNTED) / (1 + len(drawn)), bounds[one]) for one in clearness[rare][few]]
    p[rare] = counted
    return p


def _rounded(length: int) -> int:
    """Returns the length whose random orders serve this one: a little longer, and so never less clear by chance."""
    rounded = _EXACT
    while rounded < length:
        rounded += rounded // 10
    return rounded if length > _EXACT else length


@functools.cache
def _without_change(length: int) -> Numbers:
    """Returns the greatest clearness in each of many random orders, sorted."""
    orders = max(_FEWEST, min(_ORDERS, _NUMBERS // length))
    random = np.random.default_rng(length)
    numbers = random.permuted(np.tile(np.arange(length, dtype=float), (orders, 1)), axis=1)
    greatest: Numbers = np.sort(_scan(numbers).max(axis=1))
    return greatest


@functools.cache
def _bound(clearness: float, length: int) -> float:
    """Returns the sum, over all intervals and splits, of the chance that the split is as clear."""
    total = 0.0
    for width, starts in intervals(length):
        own = 0.0
        for first in range(LEAST, width - LEAST + 1):
            few, many = sorted((first, width - first))
            if few > _EXACT:
                own += math.exp(-clearness)
                continue
            logs = _two_sided(few, many)
            place = int(np.searchsorted(logs, clearness - 1e-9))
            own += math.exp(-logs[place]) if place < len(logs) else 0.0
        total += own * len(starts)
    return min(1.0, total)


def _threshold(p_values: Sequence[float], count: int, level: float) -> float:
    """Returns the p-value up to which series show a change, by Benjamini and Hochberg; 0 if none does."""
    ordered = np.sort(np.array(p_values))
    limits = level * np.arange(1, len(ordered) + 1) / max(count, 1)
    passing = np.nonzero(ordered <= limits)[0]
    return float(limits[passing[-1]]) if len(passing) else 0.0


def _places(numbers: Numbers, threshold: float) -> list[int]:
    """Returns the places of the changes of a series: p-values of their intervals are at most the threshold.

    The narrowest interval that shows a change gives the first one: it hardly holds a second. What lies before and after
    is searched in the same way.
    """
    length = len(numbers)
    if length < 2 * LEAST:
        return []
    clearness = _scan(numbers[None])[0]
    spans = [(int(start), width) for width, starts in intervals(length) for start in starts]
    shows = np.flatnonzero(_p_values(clearness, length, threshold) <= threshold)
    if not len(shows):
        return []
    start, width = spans[min(shows, key=lambda one: (spans[one][1], -clearness[one]))]
    place = start + _best_split(numbers[start : start + width])
    later = [place + one for one in _places(numbers[place:], threshold)]
    return [*_places(numbers[:place], threshold), place, *later]


def _worth_it(numbers: Numbers, places: Sequence[int], smallest: float) -> list[Shift]:
    """Returns the changes that are worth a mention, after moving each to the best split between its neighbours."""
    places = list(places)
    while places:
        places = _moved(numbers, places)
        found = list(_shifts(numbers, places))
        small = [one for one in found if _least(one) < smallest]
        if not small:
            return found
        places.remove(min(small, key=_least).place)
    return []


def _least(shift: Shift) -> float:
    """Returns the size that a change has at least; without an interval, its size."""
    if not math.isfinite(shift.low):
        return abs(shift.size)
    return max(shift.low, -shift.high)


def _moved(numbers: Numbers, places: Sequence[int]) -> list[int]:
    moved: list[int] = []
    for one, place in enumerate(places):
        start = moved[-1] if moved else 0
        end = places[one + 1] if one + 1 < len(places) else len(numbers)
        if end - start >= 2 * LEAST:
            place = start + _best_split(numbers[start:end])
        moved.append(place)
    return moved


def _best_split(numbers: Numbers) -> int:
    """Returns the split whose two medians fit best: the sum of all distances from them is the least."""
    places = range(LEAST, len(numbers) - LEAST + 1)
    return min(places, key=lambda place: _distances(numbers[:place]) + _distances(numbers[place:]))


def _distances(numbers: Numbers) -> float:
    return float(np.abs(numbers - np.median(numbers)).sum())


def _shifts(numbers: Numbers, places: Sequence[int]) -> Iterator[Shift]:
    edges = [0, *places, len(numbers)]
    for start, place, end in zip(edges, edges[1:], edges[2:], strict=False):
        yield Shift(place, *shift_at(numbers[start:place], numbers[place:end]))
