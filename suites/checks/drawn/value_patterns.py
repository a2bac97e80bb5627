"""Holds the patterns of values and orders that are drawn, by dtype.

A pattern never has both infinite and subnormal numbers. Their product is infinite, but XLA's threads flush subnormal
numbers to zero, which makes it NaN. All values are small enough that a sum of a thousand does not overflow.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from suites.numerics.arrays import Array
from suites.numerics.error_model import finfo
from suites.numerics.precision import FLOAT8


def within(dtype: np.dtype[Any], values: Sequence[int]) -> list[int]:
    """Returns those of some integers that a dtype can hold."""
    return [each for each in values if np.iinfo(dtype).min <= each <= np.iinfo(dtype).max]


def amounts(dtype: np.dtype[Any]) -> list[int]:
    """Returns numbers about as large as the dtype has bits, and negative ones."""
    bits = 8 * dtype.itemsize
    return [0, 1, bits // 2, bits - 1, bits, bits + 1, 2 * bits, -1, -bits]


def ends(dtype: np.dtype[Any]) -> list[int]:
    """Returns the least and the largest integers of a dtype, and those beside them and beside zero."""
    limits = np.iinfo(dtype)
    return [limits.min, limits.max, 0, 1, limits.max - 1, limits.min + 1]


Random = np.random.Generator
Pattern = Callable[[np.dtype[Any], int, Random], Array]
"""Takes a dtype, a number of elements and a generator of random numbers. Returns a vector."""


def pattern_names(dtype: np.dtype[Any]) -> tuple[str, ...]:
    """Returns the names of the patterns of a dtype."""
    return tuple(_patterns(dtype))


def patterned(name: str | Array, like: Array, random: Random) -> Array:
    """Returns an array with the shape and dtype of another, filled with a pattern.

    Args:
        name: One of :func:`pattern_names`, or values that are repeated.
        like: The other array.
        random: Draws the random numbers of the pattern.
    """
    with np.errstate(all="ignore"):
        if isinstance(name, str):
            filled = _patterns(like.dtype)[name](like.dtype, like.size, random)
        else:
            filled = np.resize(name, like.size)
        return in_range(filled, like.dtype).reshape(like.shape)


def in_range(values: Any, dtype: np.dtype[Any]) -> Array:
    """Returns values in a dtype. A finite number beyond the largest of 8 bits, which would be NaN, becomes this."""
    if dtype == FLOAT8:
        most = float(finfo(dtype).max)
        values = np.where(np.isfinite(values), np.clip(values, -most, most), values)
    return np.asarray(values).astype(dtype, copy=False)


def _patterns(dtype: np.dtype[Any]) -> dict[str, Pattern]:
    if dtype.kind == "b":
        return _BOOLEANS
    if dtype.kind in "iu":
        return _INTEGERS
    return _COMPLEX if dtype.kind == "c" else _FLOATS


def _decades(dtype: np.dtype[Any]) -> float:
    """Decades that magnitudes reach from 1 in either direction: 30 for float32, 3 for float16."""
    return float(np.floor(0.8 * np.log10(float(finfo(dtype).max))))


def _alternating(*values: Any) -> Pattern:
    return lambda dtype, size, random: np.resize(np.array(values, np.float64), size)


def _ascending(dtype: np.dtype[Any], size: int, random: Random) -> Array:
    return np.sort(random.standard_normal(size) * 4)


def _cancelling(dtype: np.dtype[Any], size: int, random: Random) -> Array:
    """Large numbers with their negatives, and small numbers between."""
    result = random.standard_normal(size)
    big = min(1e6, 10.0 ** _decades(dtype))
    result[::3] = big
    result[1::3][: result[::3].size] = -big
    return result


def _of(*values: Any) -> Pattern:
    return lambda dtype, size, random: random.choice(np.array(values), size)


def _magnitudes(least: float, most: float) -> Pattern:
    """Numbers of either sign whose logarithms are uniform, between these shares of the decades of the dtype."""

    def fill(dtype: np.dtype[Any], size: int, random: Random) -> Array:
        magnitudes: Array = 10.0 ** (random.uniform(least, most, size) * _decades(dtype))
        return random.choice(np.array([-1.0, 1.0]), size) * magnitudes

    return fill


def _special(dtype: np.dtype[Any], size: int, random: Random) -> Array:
    """Normal numbers with a NaN, both infinities and both zeros among them."""
    result = random.standard_normal(size)
    values = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, -np.nan])
    positions = random.permutation(size)[: values.size]
    result[positions] = values[: positions.size]
    return result


def _subnormal(dtype: np.dtype[Any], size: int, random: Random) -> Array:
    """Subnormal numbers, zeros, and the smallest normal numbers."""
    info = finfo(dtype)
    tiny, least = float(info.tiny), float(info.smallest_subnormal)
    values = [least, -least, 3 * least, tiny / 2, -tiny / 4, tiny, -tiny, 1.5 * tiny, 0.0, -0.0, 1.0]
    return random.choice(np.array(values), size)


def _far(sign: int) -> Pattern:
    """Numbers of one sign, larger than the usual start values of a maximum; a sum of a thousand does not overflow."""
    return lambda dtype, size, random: sign * random.uniform(0.5, 1, size) * float(finfo(dtype).max) / 2048


def _nan_after_infinities(dtype: np.dtype[Any], size: int, random: Random) -> Array:
    """Normal numbers with one infinity of each sign, and NaN in the last quarter."""
    result = random.standard_normal(size)
    result[size // 4 : size // 4 + 2] = [np.inf, -np.inf][: result[size // 4 : size // 4 + 2].size]
    result[size - size // 4 :] = np.nan
    return result


def _needle(position: int | None, background: Any, value: Any) -> Pattern:
    """One value among equal ones, at an index from either end, where a tail or a chunk may lose it.

    Without an index it is anywhere.
    """

    def fill(dtype: np.dtype[Any], size: int, random: Random) -> Array:
        result = np.full(size, background, np.float64 if dtype.kind in "fcV" else dtype)
        where = random.integers(size) if position is None and size else position
        if where is not None and -size <= where < size:
            result[where] = value
        return result

    return fill


NEEDLES = (0, 1, 7, 8, 15, 16, -1, -2, -3, -4, -5, -8)
"""Indices of needles: the ends, the first elements of chunks, and tails of up to eight elements."""


def _needles(background: Any, value: Any) -> dict[str, Pattern]:
    return {f"needle at {position}": _needle(position, background, value) for position in NEEDLES}


def _halves(dtype: np.dtype[Any], size: int, random: Random) -> Array:
    """Numbers halfway between two whole ones, and their neighbours: ties of roundings."""
    halves = random.integers(-20, 20, size) + 0.5
    beside = np.asarray(halves, np.float64).astype(dtype)
    ends = (random.choice(np.array([-1.0, 1.0]), size) * float(finfo(dtype).max)).astype(dtype)
    return np.where(random.random(size) < 0.3, np.nextafter(beside, ends), beside)


def _near_overflow(dtype: np.dtype[Any], size: int, random: Random) -> Array:
    """Numbers whose squares nearly overflow or underflow."""
    magnitudes: Array = 2.0 ** (random.choice([-0.52, -0.49, 0.49, 0.52], size) * np.log2(float(finfo(dtype).max)))
    return random.choice(np.array([-1.0, 1.0]), size) * magnitudes * random.uniform(0.5, 1, size)


_SMOOTH: dict[str, Pattern] = {
    "zeros": _alternating(0.0),
    "sevens": _alternating(7.0),
    "whole": lambda dtype, size, random: random.integers(-8, 9, size),  # their sums are exact in any order
    # Quarters, so that limits such as 5 or 6 are met, passed and just missed.
    "zero to ten": lambda dtype, size, random: random.integers(0, 41, size) / 4,
    "hundreds": lambda dtype, size, random: random.standard_normal(size) * 100,
    "one hot": _needle(None, 0.0, 1.0),
    "ties": _of(-1.0, 0.0, 1.0, 2.0),
    "ascending": _ascending,
    "descending": lambda dtype, size, random: _ascending(dtype, size, random)[::-1],
    "ascending below zero": lambda dtype, size, random: np.sort(-np.abs(random.standard_normal(size)) - 0.1),
    "negative": lambda dtype, size, random: -np.abs(random.standard_normal(size)) - 0.1,
    "far from zero": lambda dtype, size, random: 1000 + random.standard_normal(size),
    "cancelling": _cancelling,
    "some magnitudes": _magnitudes(-0.25, 0.25),
}

SPECIAL = (np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0)

PATTERNS_AT_POLES: dict[str, Pattern] = {
    "minus zeros": _alternating(-0.0),
    "both zeros": _alternating(0.0, -0.0, -0.0, 1.0, 0.0),
    "magnitudes": _magnitudes(-1.0, 1.0),
    "large": _magnitudes(0.99, 1.0),
    "small": _magnitudes(-1.0, -0.99),
    "special": _special,
    "far below zero": _far(-1),
    "far above zero": _far(1),
    "nan after infinities": _nan_after_infinities,
    "special only": _of(*SPECIAL),
    "subnormal": _subnormal,
    "one nan": _needle(None, 1.0, np.nan),
    "one infinity": _needle(None, 1.0, np.inf),
    "one minus infinity": _needle(None, 1.0, -np.inf),
    "minus infinities": _alternating(-np.inf),
    "all but one minus infinity": _needle(None, -np.inf, 1.0),
    "halves": _halves,
    # Around 1, apart in their last bits alone: a narrower type cannot tell them apart.
    "nearly equal": lambda dtype, size, random: 1 + random.integers(-8, 9, size) * float(finfo(dtype).eps),
    "near overflow": _near_overflow,
    **_needles(0.0, 1.0),
}
"""Patterns at which derivatives are not judged."""

_FLOATS = _SMOOTH | PATTERNS_AT_POLES


def _between(least: Callable[[Any], int], most: Callable[[Any], int]) -> Pattern:
    """Numbers between two limits, which follow from the limits of the dtype."""

    def fill(dtype: np.dtype[Any], size: int, random: Random) -> Array:
        limits = np.iinfo(dtype)
        return random.integers(least(limits), most(limits), size, dtype=dtype, endpoint=True)

    return fill


_full_range = _between(lambda limits: limits.min, lambda limits: limits.max)


def _extremes(dtype: np.dtype[Any], size: int, random: Random) -> Array:
    return random.choice(np.array(ends(dtype), dtype), size)


def _powers_of_two(dtype: np.dtype[Any], size: int, random: Random) -> Array:
    bits = 8 * dtype.itemsize - (dtype.kind == "i")
    return (np.ones(size, np.uint64) << random.integers(0, bits, size).astype(np.uint64)).astype(dtype)


def _shifts(dtype: np.dtype[Any], size: int, random: Random) -> Array:
    """Numbers of bits: shifts by these differ between languages."""
    return random.choice(np.array(within(dtype, amounts(dtype)), dtype), size)


def _beyond_floats(dtype: np.dtype[Any], size: int, random: Random) -> Array:
    """Odd numbers that floats of the same width cannot represent: above 2**53 in 64 bits, above 2**24 in 32."""
    info = np.iinfo(dtype)
    least = min({64: 2**53, 32: 2**24}.get(8 * dtype.itemsize, 1), info.max // 4)
    drawn = random.integers(least, min(4 * least, info.max), size, dtype=dtype)
    return np.asarray(drawn | dtype.type(1))


_INTEGERS: dict[str, Pattern] = {
    "zeros": lambda dtype, size, random: np.zeros(size, dtype),
    "sevens": lambda dtype, size, random: np.full(size, 7, dtype),
    "largest": lambda dtype, size, random: np.full(size, np.iinfo(dtype).max, dtype),
    "least": lambda dtype, size, random: np.full(size, np.iinfo(dtype).min, dtype),
    "few": lambda dtype, size, random: random.integers(-10 if dtype.kind == "i" else 0, 11, size).astype(dtype),
    "zero to ten": lambda dtype, size, random: random.integers(0, 11, size).astype(dtype),
    "full range": _full_range,
    "extremes": _extremes,
    # Numbers from half of the largest on: an unsigned one is negative if it is read as signed.
    "upper half": _between(lambda limits: limits.max // 2 + 1, lambda limits: limits.max),
    "powers of two": _powers_of_two,
    "one hot": _needle(None, 0, 1),
    "ties": lambda dtype, size, random: random.integers(0, 3, size).astype(dtype),
    "ascending": lambda dtype, size, random: np.sort(_full_range(dtype, size, random)),
    "descending": lambda dtype, size, random: np.sort(_full_range(dtype, size, random))[::-1],
    "shifts": _shifts,
    "beyond floats": _beyond_floats,
    # Large numbers of one sign, whose sum passes the range.
    "overflowing": _between(lambda limits: limits.max // 8, lambda limits: limits.max // 4 - 1),
    **_needles(0, 1),
}

_BOOLEANS: dict[str, Pattern] = {
    "zeros": lambda dtype, size, random: np.zeros(size, bool),
    "ones": lambda dtype, size, random: np.ones(size, bool),
    "mixed": lambda dtype, size, random: random.random(size) < 0.5,
    "rare": lambda dtype, size, random: random.random(size) < 0.1,
    "one hot": _needle(None, False, True),
    "one cold": _needle(None, True, False),
    "alternating": lambda dtype, size, random: np.resize(np.array([False, True]), size),
    **_needles(False, True),
    **{f"gap at {place}": _needle(place, True, False) for place in NEEDLES},
}


def _of_parts(pattern: Pattern) -> Pattern:
    """The pattern for both parts of complex numbers."""

    def fill(dtype: np.dtype[Any], size: int, random: Random) -> Array:
        part = np.dtype(np.float32 if dtype == np.complex64 else np.float64)
        real, imaginary = (pattern(part, size, random).astype(part) for _ in range(2))
        return real + 1j * np.roll(imaginary, 1)

    return fill


# C does not define complex arithmetic with NaN and infinities.
_ALSO_COMPLEX = ("both zeros", "large", "small", "near overflow", "nearly equal")
_COMPLEX = {name: _of_parts(_FLOATS[name]) for name in (*_SMOOTH, *_ALSO_COMPLEX)}
