"""Draws inputs that break careless kernels: named patterns of values or orders, within the domains of an operator.

A program is compiled once for a shape, and a further run costs next to nothing. So a kernel is tried on about fifty
patterns, first on all inputs together, then on each input alone.

A pattern never has both infinite and subnormal numbers. Their product is infinite, but XLA's threads flush subnormal
numbers to zero, which makes it NaN. All values are small enough that a sum of a thousand does not overflow.

Kernels often differ from their reference at a threshold, the length of a table or a magic number. So the numbers in the
reference and in the code of kernels are drawn too, with their neighbours: literals of the reference's jaxpr, of Python
functions and the functions that they call, and of CUDA sources.
"""

from __future__ import annotations

import functools
import re
import types
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jax.extend import core

from suites.checks.judging.reasons import is_library
from suites.declare.input_arrays import input_names
from suites.declare.operator import Operator
from suites.kernels.kernel import Kernel
from suites.numerics.arrays import Array, Inputs, kind_of
from suites.numerics.error_model import finfo
from suites.numerics.jaxpr import equations, jaxpr_of, jaxprs

CONSTANTS = "constants"
"""The pattern of the numbers in the reference and in the kernels, with their neighbours."""

ALONE = {
    *("zeros", "minus zeros", "both zeros", "sevens", "zero to ten", "hundreds", "magnitudes", "large", "small"),
    *("special", "subnormal", "one hot", "upper half", "full range", "mixed", "shifts", CONSTANTS),
}
"""The patterns that an input also gets by itself, while the others keep their samples."""

BESIDE = {"halves": 1, "least": -1}
"""Patterns that an input also gets while all other inputs are this number: a quotient by it is a tie, or overflows."""


def battery(
    operator: Operator, dtype: str, size: int, seeds: Sequence[int], *, smooth: bool = False
) -> Iterator[tuple[str, Inputs]]:
    """Yields inputs in the shapes of a sample, each different from the others, after the name of their pattern.

    A name is such as ``zeros``, or ``zeros in x`` for one input alone.

    Args:
        operator: The operator.
        dtype: The dtype of the sample.
        size: Its nominal size.
        seeds: Decide the random numbers of the patterns, and the sample.
        smooth: Whether to use only finite numbers of moderate size, at which derivatives are judged.
    """
    seen, sample = set(), operator.sample(dtype, size, seeds[0])
    names = input_names(operator.reference, len(sample))
    for number, (label, chosen) in enumerate(_choices(operator, sample, names, smooth)):
        inputs = filled(operator, sample, chosen, np.random.default_rng([*seeds, number]))
        key = tuple(array.tobytes() for array in inputs)
        if key not in seen:
            seen.add(key)
            yield label, inputs


SHORTEST_PART = 1024
"""Large inputs are cut into parts of this many elements, or more."""


def needles(operator: Operator, sample: Inputs) -> Iterator[tuple[str, Inputs]]:
    """Yields large samples of zeros with two other elements, 1 and -1, at indices beside powers of two.

    Kernels cut large inputs there, or at the numbers in their code, which are tried too.
    """
    size = max(array.size for array in sample)
    ends = {2**power for power in range(size.bit_length())} | set(whole_constants(operator))
    positions = sorted({end + step for end in ends if end >= SHORTEST_PART for step in (-1, 0, 1) if end + step < size})
    for one, other in zip(positions, [*positions[1:], *positions[:1]], strict=True):
        values = np.zeros(size)
        values[[one, other]] = 1, -1
        large = [values if array.size > SHORTEST_PART and array.dtype.kind != "b" else None for array in sample]
        yield f"needles at {one} and {other}", filled(operator, sample, large, np.random.default_rng(0))


def is_parameter(array: Array, inputs: Inputs) -> bool:
    """Whether an input has a single element and another has several, such as a threshold or a time constant."""
    return array.size == 1 and any(other.size > 1 for other in inputs)


def whole_numbers(operator: Operator, inputs: Inputs, seed: int = 0) -> Inputs:
    """Returns integers in place of floats. Their sums are exact, so the result shows any term that a kernel omits."""
    names = ["whole" if kind_of(array.dtype) == "f" and not is_parameter(array, inputs) else None for array in inputs]
    return filled(operator, inputs, names, np.random.default_rng(seed))


def filled(operator: Operator, sample: Inputs, names: Sequence[Any], random: np.random.Generator) -> Inputs:
    """Returns the sample with patterns in the inputs that have a name in ``names``, fitted to their domains.

    A vector in place of a name holds the values of the input, and is repeated.
    """
    arrays = []
    for index, (array, name) in enumerate(zip(sample, names, strict=True)):
        if name is None:
            arrays.append(array)
            continue
        if isinstance(name, str) and name == CONSTANTS:
            name = around(constants(operator), array.dtype)
            name = random.permutation(name) if name.size else array
        drawn = patterned(name, array, random)
        arrays.append(operator.domain_of(index).fitted(drawn, array, sample))
    return tuple(arrays)


def _choices(operator: Operator, sample: Inputs, names: Sequence[str], smooth: bool) -> Iterator[tuple[str, list[Any]]]:
    """Yields labels, each with a pattern for each input; parameters keep their samples unless they are alone."""
    more = (CONSTANTS,) if constants(operator) and not smooth else ()
    own = [
        tuple(name for name in pattern_names(array.dtype) if not (smooth and name in _SPECIAL))
        + (more if kind_of(array.dtype) in "iuf" else ())
        for array in sample
    ]
    leading = [index for index, array in enumerate(sample) if not is_parameter(array, sample)]
    for name in dict.fromkeys(name for index in leading for name in own[index]):
        chosen: list[Any] = [
            (name if name in own[index] else own[index][len(name) % len(own[index])]) if index in leading else None
            for index in range(len(sample))
        ]
        yield name, chosen
    for index in range(len(sample)) if len(sample) > 1 else ():
        for name in own[index]:
            if name in ALONE:
                yield f"{name} in {names[index]}", [name if other == index else None for other in range(len(sample))]
            if name in BESIDE:
                others = [np.array([BESIDE[name]])] * len(sample)
                yield f"{name} in {names[index]} beside {BESIDE[name]}", [*others[:index], name, *others[index + 1 :]]
    for index, array in enumerate(sample):
        for value in _in_turn(array.dtype, sample) if array.size == 1 and not smooth else ():
            yield (
                f"{value.item()} in {names[index]}",
                [value if other == index else None for other in range(len(sample))],
            )


def _in_turn(dtype: np.dtype[Any], sample: Inputs) -> Iterator[Array]:
    """Yields the values that an input of one element gets, one after the other: a pattern would give it only one."""
    if dtype.kind not in "iu":
        values = np.array([] if dtype.kind in "bc" else SPECIAL)
    else:
        lengths = {extent for array in sample for extent in array.shape if extent > 1}
        beside = [step + sign * extent for extent in sorted(lengths) for sign in (-1, 1) for step in (-1, 0, 1)]
        values = np.array([*_within(dtype, beside), *_within(dtype, _amounts(dtype)), *_ends(dtype)], dtype)
    yield from values.reshape(-1, 1)


def _within(dtype: np.dtype[Any], values: Sequence[int]) -> list[int]:
    return [each for each in values if np.iinfo(dtype).min <= each <= np.iinfo(dtype).max]


def _amounts(dtype: np.dtype[Any]) -> list[int]:
    """Numbers about as large as the dtype has bits, and negative ones."""
    bits = 8 * dtype.itemsize
    return [0, 1, bits // 2, bits - 1, bits, bits + 1, 2 * bits, -1, -bits]


def _ends(dtype: np.dtype[Any]) -> list[int]:
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
        return filled.astype(like.dtype, copy=False).reshape(like.shape)


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
    ends = random.choice(np.array([-np.inf, np.inf]), size).astype(dtype)
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

_SPECIAL: dict[str, Pattern] = {
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

_FLOATS = _SMOOTH | _SPECIAL


def _between(least: Callable[[Any], int], most: Callable[[Any], int]) -> Pattern:
    """Numbers between two limits, which follow from the limits of the dtype."""

    def fill(dtype: np.dtype[Any], size: int, random: Random) -> Array:
        limits = np.iinfo(dtype)
        return random.integers(least(limits), most(limits), size, dtype=dtype, endpoint=True)

    return fill


_full_range = _between(lambda limits: limits.min, lambda limits: limits.max)


def _extremes(dtype: np.dtype[Any], size: int, random: Random) -> Array:
    return random.choice(np.array(_ends(dtype), dtype), size)


def _powers_of_two(dtype: np.dtype[Any], size: int, random: Random) -> Array:
    bits = 8 * dtype.itemsize - (dtype.kind == "i")
    return (np.ones(size, np.uint64) << random.integers(0, bits, size).astype(np.uint64)).astype(dtype)


def _shifts(dtype: np.dtype[Any], size: int, random: Random) -> Array:
    """Numbers of bits: shifts by these differ between languages."""
    return random.choice(np.array(_within(dtype, _amounts(dtype)), dtype), size)


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


MOST = 16
"""Most constants of one operator that are tried."""

MOST_ELEMENTS = 64
"""Most elements of an array that counts as a table of constants."""

MOST_DEPTH = 8
"""Most calls, from function to function, that the search for constants follows."""

_TRIVIAL = (0, 1, -1, 2)
_NUMBERS = re.compile(r"(?<![\w.])(0[xX][0-9a-fA-F]+|\d+\.\d*(?:[eE][+-]?\d+)?|\d+[eE][+-]?\d+|\d+)[uUlLfF]*(?![\w.])")


@functools.lru_cache(maxsize=64)
def constants(operator: Operator) -> tuple[float, ...]:
    """Returns the numbers in an operator's reference and in its kernels, without the trivial ones, in a fixed order."""
    seen: set[int] = set()
    numbers = [*_of_reference(operator)]
    for kernel in operator.kernels.values():
        numbers += _of_code(kernel, seen)
    unique = dict.fromkeys(each for each in numbers if each not in _TRIVIAL and abs(each) < 1e300)
    return tuple(unique)[:MOST]


def around(values: tuple[float, ...], dtype: np.dtype[Any]) -> Array:
    """Returns the constants and their neighbours in a dtype: the next numbers, one less and one more, and negatives."""
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        near = [each + step for value in values for each in (int(value), -int(value)) for step in (0, -1, 1)]
        return np.array(list(dict.fromkeys(each for each in near if info.min <= each <= info.max)), dtype)
    near_floats: list[Any] = []
    with np.errstate(all="ignore"):
        for value in values:
            each = np.asarray(value, np.float64).astype(dtype)
            near_floats += [each, np.nextafter(each, dtype.type(np.inf)), np.nextafter(each, dtype.type(-np.inf))]
            near_floats += [-each, np.asarray(value - 1).astype(dtype), np.asarray(value + 1).astype(dtype)]
            near_floats += [np.asarray(value / 2).astype(dtype)]
            if float(value).is_integer() and 2**23 <= value < 2**32 and dtype == np.float32:
                near_floats.append(np.asarray(int(value), np.uint32).view(np.float32))
    return np.array([each for each in near_floats if not np.isinf(each)], dtype)


def whole_constants(operator: Operator) -> list[int]:
    """Returns the constants that may be numbers of elements."""
    return [int(each) for each in constants(operator) if float(each).is_integer() and each > 2]


def _of_reference(operator: Operator) -> Iterator[float]:
    try:
        closed = jaxpr_of(operator.reference, operator.sample(operator.dtypes[0], operator.sizes.check[0], 0))
    except Exception:  # a reference that cannot be traced
        return
    values = []
    for equation in equations(closed.jaxpr):
        values += [constant for each in jaxprs(equation.params.values()) for constant in getattr(each, "consts", ())]
        values += [atom.val for atom in equation.invars if isinstance(atom, core.Literal)]
    yield from _of_value((*values, *closed.consts))


def _of_value(value: Any) -> Iterator[float]:
    """Yields the real finite numbers of a scalar, a small array, or a tuple of them."""
    if isinstance(value, tuple | frozenset):
        for each in value:
            yield from _of_value(each)
    elif isinstance(value, int | float | np.number | np.ndarray | jax.Array):
        array = np.asarray(value)
        if kind_of(array.dtype) in "iuf" and array.size <= MOST_ELEMENTS:
            for each in array.reshape(-1).tolist():
                if np.isfinite(each):
                    yield each


def _of_code(thing: Any, seen: set[int], depth: int = 0) -> Iterator[float]:
    """Yields the numbers in a kernel: in the Python functions that it holds or calls, and in texts of C++."""
    if id(thing) in seen or depth > MOST_DEPTH:
        return
    seen.add(id(thing))
    inner: list[Any] = []
    if isinstance(thing, str):
        for match in _NUMBERS.findall(thing) if "{" in thing and ";" in thing else ():
            yield int(match, 0) if re.fullmatch(r"0[xX].*|[1-9]\d*|0", match) else float(match)
    elif isinstance(thing, types.FunctionType):
        if not is_library(Path(thing.__code__.co_filename)):
            named = [thing.__globals__.get(name) for name in thing.__code__.co_names]
            inner = [thing.__code__, *named, *(cell.cell_contents for cell in thing.__closure__ or ())]
    elif isinstance(thing, types.CodeType):
        inner = list(thing.co_consts)
    elif isinstance(thing, Kernel):
        inner = list(vars(thing).values())
    elif callable(thing):  # of Numba, of Warp and functools.partial, of decorators
        inner = [getattr(thing, name, None) for name in ("py_func", "func", "__wrapped__")]
        inner = [each for each in inner if isinstance(each, types.FunctionType)]
    else:
        yield from _of_value(thing)
    for each in inner:
        yield from _of_code(each, seen, depth + 1)
