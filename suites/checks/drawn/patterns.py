"""Makes arrays of a dtype whose values, or whose order, break careless kernels: the patterns that checks draw.

Each pattern has a name and fills an array of any shape. Infinite and subnormal numbers never come together: their
product is infinite, but NaN on XLA's threads, which flush subnormal numbers to zero. No value is so near to the largest
number of its dtype that a sum of a thousand overflows.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from suites.numerics.arrays import Array
from suites.numerics.error_model import finfo

Random = np.random.Generator
Pattern = Callable[[np.dtype[Any], int, Random], Array]
"""Takes a dtype, a number of elements and a generator of random numbers. Returns a vector."""


def pattern_names(dtype: np.dtype[Any]) -> tuple[str, ...]:
    """Returns the names of the patterns of a dtype."""
    return tuple(_patterns(dtype))


def patterned(name: str, like: Array, random: Random) -> Array:
    """Returns an array with the shape and dtype of another, filled with a pattern.

    Args:
        name: One of :func:`pattern_names`.
        like: The other array.
        random: Draws what the pattern leaves open.
    """
    with np.errstate(all="ignore"):
        filled = _patterns(like.dtype)[name](like.dtype, like.size, random)
        return filled.astype(like.dtype, copy=False).reshape(like.shape)


def smooth_names(dtype: np.dtype[Any]) -> tuple[str, ...]:
    """Returns the patterns of finite numbers at which a derivative can be judged."""
    return tuple(name for name in _patterns(dtype) if name not in _NOT_SMOOTH)


def _patterns(dtype: np.dtype[Any]) -> dict[str, Pattern]:
    if dtype.kind == "b":
        return _BOOLEANS
    if dtype.kind in "iu":
        return _INTEGERS
    return _COMPLEX if dtype.kind == "c" else _FLOATS


def _decades(dtype: np.dtype[Any]) -> float:
    """Decades that magnitudes reach from 1 in either direction: 30 for float32, 3 for float16."""
    return float(np.floor(0.8 * np.log10(float(finfo(dtype).max))))


def _signs(size: int, random: Random) -> Array:
    return random.choice(np.array([-1.0, 1.0]), size)


def _alternating(*values: Any) -> Pattern:
    return lambda dtype, size, random: np.resize(np.array(values, np.float64), size)


def _one_hot(background: Any, value: Any) -> Pattern:
    def fill(dtype: np.dtype[Any], size: int, random: Random) -> Array:
        result = np.full(size, background)
        if size:
            result[random.integers(size)] = value
        return result

    return fill


def _whole(dtype: np.dtype[Any], size: int, random: Random) -> Array:
    """Small whole numbers, whose sums are exact in any order."""
    return random.integers(-8, 9, size)


def _zero_to_ten(dtype: np.dtype[Any], size: int, random: Random) -> Array:
    """Quarters from 0 to 10, so that limits such as 5 or 6 are met, passed and just missed."""
    return random.integers(0, 41, size) / 4


def _hundreds(dtype: np.dtype[Any], size: int, random: Random) -> Array:
    return random.standard_normal(size) * 100


def _ascending(dtype: np.dtype[Any], size: int, random: Random) -> Array:
    return np.sort(random.standard_normal(size) * 4)


def _far(dtype: np.dtype[Any], size: int, random: Random) -> Array:
    return 1000 + random.standard_normal(size)


def _large_first(dtype: np.dtype[Any], size: int, random: Random) -> Array:
    """Ordered by size from the largest on, so that a sum loses the rest."""
    magnitudes: Array = 10.0 ** random.uniform(-2, min(6, _decades(dtype)), size)
    return np.sort(magnitudes)[::-1]


def _cancelling(dtype: np.dtype[Any], size: int, random: Random) -> Array:
    """Large numbers with their negatives, and small numbers between."""
    result = random.standard_normal(size)
    big = min(1e6, 10.0 ** _decades(dtype))
    result[::3] = big
    result[1::3][: result[::3].size] = -big
    return result


def _magnitudes(share: float = 1.0) -> Pattern:
    def fill(dtype: np.dtype[Any], size: int, random: Random) -> Array:
        decades = share * _decades(dtype)
        return _signs(size, random) * 10.0 ** random.uniform(-decades, decades, size)

    return fill


def _large(dtype: np.dtype[Any], size: int, random: Random) -> Array:
    return _signs(size, random) * random.uniform(0.5, 1, size) * 10.0 ** _decades(dtype)


def _small(dtype: np.dtype[Any], size: int, random: Random) -> Array:
    return _signs(size, random) * random.uniform(0.5, 1, size) * 10.0 ** -_decades(dtype)


def _special(dtype: np.dtype[Any], size: int, random: Random) -> Array:
    """Normal numbers with a NaN, both infinities and both zeros among them."""
    result = random.standard_normal(size)
    values = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, -np.nan])
    places = random.permutation(size)[: values.size]
    result[places] = values[: places.size]
    return result


def _special_only(dtype: np.dtype[Any], size: int, random: Random) -> Array:
    return random.choice(np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0]), size)


def _subnormal(dtype: np.dtype[Any], size: int, random: Random) -> Array:
    """Subnormal numbers, zeros, and the smallest normal numbers."""
    info = finfo(dtype)
    tiny, least = float(info.tiny), float(info.smallest_subnormal)
    values = [least, -least, 3 * least, tiny / 2, -tiny / 4, tiny, -tiny, 1.5 * tiny, 0.0, -0.0, 1.0]
    return random.choice(np.array(values), size)


_FLOATS: dict[str, Pattern] = {
    "zeros": _alternating(0.0),
    "minus zeros": _alternating(-0.0),
    "both zeros": _alternating(0.0, -0.0, -0.0, 1.0, 0.0),
    "ones": _alternating(1.0),
    "sevens": _alternating(7.0),
    "minus threes": _alternating(-3.0),
    "whole": _whole,
    "zero to ten": _zero_to_ten,
    "hundreds": _hundreds,
    "one hot": _one_hot(0.0, 1.0),
    "one large": _one_hot(1.0, 1000.0),
    "ties": lambda dtype, size, random: random.choice(np.array([-1.0, 0.0, 1.0, 2.0]), size),
    "ascending": _ascending,
    "descending": lambda dtype, size, random: _ascending(dtype, size, random)[::-1],
    "negative": lambda dtype, size, random: -np.abs(random.standard_normal(size)) - 0.1,
    "far from zero": _far,
    "large first": _large_first,
    "cancelling": _cancelling,
    "magnitudes": _magnitudes(),
    "some magnitudes": _magnitudes(0.25),
    "large": _large,
    "small": _small,
    "special": _special,
    "special only": _special_only,
    "subnormal": _subnormal,
    "one nan": _one_hot(1.0, np.nan),
    "one infinity": _one_hot(1.0, np.inf),
    "one minus infinity": _one_hot(1.0, -np.inf),
}

_NOT_SMOOTH = {
    *("magnitudes", "large", "small", "special", "special only", "subnormal"),
    *("one nan", "one infinity", "one minus infinity", "minus zeros", "both zeros"),
}


def _full_range(dtype: np.dtype[Any], size: int, random: Random) -> Array:
    limits = np.iinfo(dtype)
    return random.integers(limits.min, limits.max, size, dtype=dtype, endpoint=True)


def _extremes(dtype: np.dtype[Any], size: int, random: Random) -> Array:
    limits = np.iinfo(dtype)
    values = [limits.min, limits.max, 0, 1, limits.max - 1, limits.min + 1]
    return random.choice(np.array(values, dtype), size)


def _constant_integer(which: str) -> Pattern:
    return lambda dtype, size, random: np.full(size, getattr(np.iinfo(dtype), which), dtype)


def _few_integers(dtype: np.dtype[Any], size: int, random: Random) -> Array:
    return random.integers(-10 if dtype.kind == "i" else 0, 11, size).astype(dtype)


def _powers_of_two(dtype: np.dtype[Any], size: int, random: Random) -> Array:
    bits = 8 * dtype.itemsize - (dtype.kind == "i")
    return (np.ones(size, np.uint64) << random.integers(0, bits, size).astype(np.uint64)).astype(dtype)


def _upper_half(dtype: np.dtype[Any], size: int, random: Random) -> Array:
    """Numbers from half of the largest on: an unsigned one is negative if it is read as signed."""
    limits = np.iinfo(dtype)
    return random.integers(limits.max // 2 + 1, limits.max, size, dtype=dtype, endpoint=True)


_INTEGERS: dict[str, Pattern] = {
    "zeros": lambda dtype, size, random: np.zeros(size, dtype),
    "ones": lambda dtype, size, random: np.ones(size, dtype),
    "sevens": lambda dtype, size, random: np.full(size, 7, dtype),
    "largest": _constant_integer("max"),
    "least": _constant_integer("min"),
    "few": _few_integers,
    "zero to ten": lambda dtype, size, random: random.integers(0, 11, size).astype(dtype),
    "full range": _full_range,
    "extremes": _extremes,
    "upper half": _upper_half,
    "powers of two": _powers_of_two,
    "one hot": _one_hot(0, 1),
    "ties": lambda dtype, size, random: random.integers(0, 3, size).astype(dtype),
    "ascending": lambda dtype, size, random: np.sort(_full_range(dtype, size, random)),
    "descending": lambda dtype, size, random: np.sort(_full_range(dtype, size, random))[::-1],
}

_BOOLEANS: dict[str, Pattern] = {
    "zeros": lambda dtype, size, random: np.zeros(size, bool),
    "ones": lambda dtype, size, random: np.ones(size, bool),
    "mixed": lambda dtype, size, random: random.random(size) < 0.5,
    "rare": lambda dtype, size, random: random.random(size) < 0.1,
    "one hot": _one_hot(False, True),
    "one cold": _one_hot(True, False),
    "alternating": lambda dtype, size, random: np.resize(np.array([False, True]), size),
}


def _of_parts(pattern: Pattern) -> Pattern:
    """The pattern for both parts of complex numbers."""

    def fill(dtype: np.dtype[Any], size: int, random: Random) -> Array:
        part = np.dtype(np.float32 if dtype == np.complex64 else np.float64)
        real, imaginary = (pattern(part, size, random).astype(part) for _ in range(2))
        return real + 1j * np.roll(imaginary, 1)

    return fill


# C leaves open what complex arithmetic makes of NaN and infinities.
_COMPLEX = {name: _of_parts(_FLOATS[name]) for name in _FLOATS if name not in _NOT_SMOOTH or name == "both zeros"}
