"""Hypothesis strategies for what the suites hand to a kernel: arrays, sparse matrices, batches, launches.

A program is compiled for each combination of shapes and dtypes, which takes far longer than to run it. So extents are
drawn from the few of :data:`SIZES`, :data:`ROWS` and :data:`EXTENTS`; values, structures and positions vary freely.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from bridge.ffi.cuda.limits import Limits
from bridge.languages.launch_shape import MOST
from suites.declare.operator import Inputs, Operator

Array = np.ndarray[Any, Any]

SIZES = (1, 5, 33, 257)
"""Nominal sizes, and numbers of non-zeros: one, fewer than a vector register holds, and just above powers of two."""

ROWS = (1, 7, 33)
"""Rows of sparse matrices."""

COLUMNS = 37
"""Columns of sparse matrices; with more non-zeros than these, some column has several."""

EXTENTS = (1, 3)
"""Extents of a batch axis. That of one element is special: its stride says nothing."""

SEEDS = st.integers(0, 2**32 - 1)


def special_values(dtype: str) -> tuple[Any, ...]:
    """Values that break careless kernels, but none so large that an operator's intermediate results overflow."""
    kind = np.dtype(dtype)
    if kind.kind == "b":
        return (np.False_, np.True_)
    if kind.kind in "iu":
        limits = np.iinfo(kind)
        return tuple(kind.type(value) for value in (0, 1, limits.min, limits.max))
    if kind.kind == "c":
        return tuple(kind.type(value) for value in (0, 1, -1, 1j))
    info: Any = np.finfo(kind)
    values = (0.0, -0.0, 1.0, -1.0, np.nan, -np.nan, np.inf, -np.inf, info.eps, info.tiny, -info.smallest_subnormal)
    return tuple(kind.type(value) for value in values)


def elements(dtype: str, without: str | None = None) -> st.SearchStrategy[Any]:
    """Single values: special ones, any small integers, floats of a size whose powers do not overflow.

    Args:
        dtype: Their dtype.
        without: ``infinite`` or ``subnormal``: floats that are left out.
    """
    kind = np.dtype(dtype)
    special = special_values(dtype)
    if kind.kind in "bc":
        return st.sampled_from(special)
    if kind.kind in "iu":
        return st.sampled_from(special) | st.integers(0 if kind.kind == "u" else -100, 100).map(kind.type)
    width: Any = 8 * kind.itemsize
    drawn = st.sampled_from(special) | st.floats(-128, 128, width=width).map(kind.type)
    if without == "infinite":
        return drawn.filter(lambda value: not np.isinf(value))
    tiny = float(np.finfo(kind).tiny)
    return drawn if without is None else drawn.filter(lambda value: not 0 < abs(float(value)) < tiny)


def vectors(dtype: str, sizes: Sequence[int] = SIZES) -> st.SearchStrategy[Array]:
    """Vectors of :func:`elements`."""
    drawn: st.SearchStrategy[Array] = st.sampled_from(sizes).flatmap(
        lambda size: arrays(dtype, size, elements=elements(dtype), fill=elements(dtype))
    )
    return drawn


# Inputs of operators.


@st.composite
def samples(
    draw: st.DrawFn, operator: Operator, dtypes: Sequence[str] | None = None, sizes: Sequence[int] = SIZES
) -> Inputs:
    """Typical inputs of an operator, of one of its dtypes.

    Those of an elementwise operator have :func:`elements` in drawn places of the long inputs. Its parameters, which
    have one element whatever the size, stay as they are. Infinite and subnormal numbers never come together: their
    product is infinite, but NaN on XLA's threads, which flush subnormal numbers to zero.
    """
    dtype = draw(st.sampled_from(dtypes or operator.dtypes))
    size, seed = draw(st.sampled_from(sizes)), draw(SEEDS)
    inputs = operator.sample(dtype, size, seed)
    if not operator.elementwise:
        return inputs
    without = draw(st.sampled_from(["infinite", "subnormal"]))
    return tuple(
        array if other.size == 1 else draw(_disturbed(array, without))
        for array, other in zip(inputs, operator.sample(dtype, max(SIZES), seed), strict=True)
    )


@st.composite
def _disturbed(draw: st.DrawFn, array: Array, without: str) -> Array:
    """The array with other values in a few places, fewer as Hypothesis shrinks."""
    places = draw(st.dictionaries(st.integers(0, array.size - 1), elements(array.dtype.name, without), max_size=8))
    result = array.copy()
    for place, value in places.items():
        result.flat[place] = value
    return result


# Sparse matrices.


@dataclass(frozen=True)
class Csr:
    """A sparse matrix: row r has the values ``data[indptr[r]:indptr[r+1]]`` in these places of ``indices``.

    Columns come in any order within a row, and more than once.
    """

    data: Array
    indices: Array
    indptr: Array
    columns: int

    @property
    def lengths(self) -> Array:
        """Non-zeros of each row."""
        return np.diff(self.indptr)

    def dense(self) -> Array:
        """The matrix with all its zeros; values of one place are added up."""
        matrix = np.zeros((self.lengths.size, self.columns), self.data.dtype)
        np.add.at(matrix, (np.repeat(np.arange(self.lengths.size), self.lengths), self.indices), self.data)
        return matrix


@st.composite
def csr(
    draw: st.DrawFn,
    dtype: str,
    rows: Sequence[int] = ROWS,
    nonzeros: Sequence[int] = (0, *SIZES),
    columns: int = COLUMNS,
    values: st.SearchStrategy[Any] | None = None,
) -> Csr:
    """Matrices whose rows differ in length: even ones, empty ones, one that has nearly all non-zeros.

    Args:
        dtype: Of the values.
        rows: Numbers of rows to choose from.
        nonzeros: Numbers of non-zeros to choose from.
        columns: How many columns there are, at least one.
        values: Draws one of them; by default normal numbers from a drawn seed.
    """
    row_count, count = draw(st.sampled_from(rows)), draw(st.sampled_from(nonzeros))
    indptr = np.array([0, *draw(_ends(row_count, count))], np.int32)
    if values is None:
        data = np.random.default_rng(draw(SEEDS)).standard_normal(count).astype(dtype)
    else:
        data = draw(arrays(dtype, count, elements=values, fill=values))
    return Csr(data, draw(_columns(count, columns)), indptr, columns)


def _ends(rows: int, count: int) -> st.SearchStrategy[list[int]]:
    """Where each row ends; the last one at ``count``."""
    anywhere = st.lists(st.integers(0, count), min_size=rows - 1, max_size=rows - 1).map(sorted)
    even = st.just([count * row // rows for row in range(1, rows)])
    one_long = st.integers(0, rows - 1).map(lambda long: [0] * long + [count] * (rows - 1 - long))
    nearly_all = st.integers(0, rows - 1).map(functools.partial(_one_each_but, rows, count))
    return (anywhere | even | one_long | nearly_all).map(lambda ends: [*ends, count])


def _one_each_but(rows: int, count: int, long: int) -> list[int]:
    """Where the rows but the last end if each but one has one non-zero, as far as there are as many."""
    lengths = [1] * rows
    lengths[long] = max(count - rows + 1, 0)
    return [min(end, count) for end in itertools.accumulate(lengths)][:-1]


def _columns(count: int, columns: int) -> st.SearchStrategy[Array]:
    """Columns in any order: spread over all, or the same again and again but for a few."""
    spread = SEEDS.map(lambda seed: np.random.default_rng(seed).integers(0, columns, count).astype(np.int32))
    one = st.integers(0, columns - 1)
    return spread | arrays(np.int32, count, elements=one, fill=one)


# Batches.


@dataclass(frozen=True)
class Level:
    """One ``jax.vmap``: where each operand has the batch axis (None: all elements share it), where outputs get it."""

    extent: int
    in_axes: tuple[int | None, ...]
    out_axes: int


@dataclass(frozen=True)
class Batch:
    """Operands for nested ``jax.vmap``, the outermost level first, and the inputs of each element.

    Attributes:
        elements: By the index of the element in each level.
    """

    levels: tuple[Level, ...]
    operands: Inputs
    elements: dict[tuple[int, ...], Inputs]

    def apply(self, call: Callable[..., Any]) -> Callable[..., Any]:
        """The call under ``jax.vmap`` at each level."""
        for level in reversed(self.levels):
            call = jax.vmap(call, in_axes=level.in_axes, out_axes=level.out_axes)
        return call

    def element(self, output: Array, index: tuple[int, ...]) -> Array:
        """What an element contributed to an output of the batched call."""
        for level, place in zip(self.levels, index, strict=True):
            output = np.take(output, place, axis=level.out_axes)
        return output


@st.composite
def batches(
    draw: st.DrawFn, operator: Operator, dtype: str, size: int, extents: Sequence[int] = EXTENTS, most_levels: int = 2
) -> Batch:
    """Batches of an operator's samples, with axes anywhere, counted from either end, and operands without.

    In each level at least one operand is batched. An operand that is not has the same value for all elements of it.
    """
    seed = draw(st.integers(0, 1000))
    example = operator.sample(dtype, size, seed)
    ranks = [array.ndim for array in example]
    least_rank = min(len(out.shape) for out in operator.outputs(*example))
    levels: list[Level] = []
    for _ in range(draw(st.integers(1, most_levels))):  # the innermost first: each adds an axis to those it batches
        axes = draw(st.tuples(*(st.none() | st.integers(-rank - 1, rank) for rank in ranks)).filter(_any_batched))
        ranks = [rank + (axis is not None) for rank, axis in zip(ranks, axes, strict=True)]
        rank = least_rank + len(levels)
        levels.insert(0, Level(draw(st.sampled_from(extents)), axes, draw(st.integers(-rank - 1, rank))))
    inputs = _Samples(operator, dtype, size, seed, tuple(levels))
    operands = tuple(inputs.stacked(operand, ()) for operand in range(len(example)))
    indices = itertools.product(*(range(level.extent) for level in levels))
    found = {index: tuple(inputs.one(operand, index) for operand in range(len(example))) for index in indices}
    return Batch(tuple(levels), operands, found)


def _any_batched(axes: tuple[int | None, ...]) -> bool:
    return any(axis is not None for axis in axes)


@dataclass(frozen=True)
class _Samples:
    """A sample for each element, of which an operand depends on its index in the levels that batch the operand."""

    operator: Operator
    dtype: str
    size: int
    seed: int
    levels: tuple[Level, ...]

    def one(self, operand: int, index: tuple[int, ...]) -> Array:
        seed = self.seed
        for level, place in zip(self.levels, index, strict=True):
            seed = seed * level.extent + (place if level.in_axes[operand] is not None else 0)
        return self.operator.sample(self.dtype, self.size, seed)[operand]

    def stacked(self, operand: int, index: tuple[int, ...]) -> Array:
        """The operand of all elements whose index begins so."""
        if len(index) == len(self.levels):
            return self.one(operand, index)
        level = self.levels[len(index)]
        axis = level.in_axes[operand]
        if axis is None:
            return self.stacked(operand, (*index, 0))
        return np.stack([self.stacked(operand, (*index, place)) for place in range(level.extent)], axis)


# Launches. Arguments are those of bridge.numba_cuda_kernel and bridge.cuda_raw_kernel, as a dict.

_BLOCKS = (1, 32, 64, 100, 256, 1024)


@st.composite
def launches(draw: st.DrawFn, size: int) -> dict[str, Any]:
    """Launches of ``size`` threads or more in x, within :class:`bridge.ffi.cuda.limits.Limits`: in any form that is accepted."""
    threads = draw(st.sampled_from(_BLOCKS))
    shared = draw(st.just({}) | st.sampled_from([0, 1, 1024, Limits().shared_bytes]).map(lambda n: {"shared_mem": n}))
    if draw(st.booleans()):
        chosen = draw(st.just({}) | st.just({"threads_per_block": threads}))
        return {"launch_dims": draw(_in_some_form(max(size, 1))), **chosen, **shared}
    blocks = -(-max(size, 1) // threads) + draw(st.integers(0, 2))
    return {"grid": draw(_in_some_form(blocks)), "block": draw(_in_some_form(threads)), **shared}


def _in_some_form(extent: int) -> st.SearchStrategy[Any]:
    """An extent in x: alone or with ones, as an integer of Python or of NumPy, in a tuple or a list."""
    return st.sampled_from([extent, np.int64(extent), (extent,), [extent], (extent, 1), [extent, 1, 1]])


def senseless_launches() -> st.SearchStrategy[dict[str, Any]]:
    """Launches that are refused on any device, before anything is compiled."""
    extent = st.integers(1, 64)
    kinds: st.SearchStrategy[dict[str, Any]] = st.one_of(
        st.just({}),
        st.fixed_dictionaries({"grid": extent}),
        st.fixed_dictionaries({"block": extent}),
        st.fixed_dictionaries({"grid": extent, "block": extent, "launch_dims": extent}),
        st.fixed_dictionaries({"block": extent, "launch_dims": extent}),
        st.fixed_dictionaries({"grid": _no_extent(-1), "block": extent}),
        st.fixed_dictionaries({"grid": extent, "block": _no_extent(0)}),
        st.fixed_dictionaries({"launch_dims": _no_extent(-1)}),
        st.fixed_dictionaries({"launch_dims": extent, "threads_per_block": _no_extent(0)}),
        st.fixed_dictionaries({"launch_dims": extent, "shared_mem": _no_extent(-1)}),
    )
    return kinds


def _no_extent(largest: int) -> st.SearchStrategy[Any]:
    """What is no extent: a number up to ``largest``, another type, none, or too many."""
    number = st.integers(-(2**40), largest)
    other = st.sampled_from([True, 1.0, "1", (), (1, 1, 1, 1), (2, 1.5)])
    return number | other | st.tuples(st.integers(1, 64), number)


def oversized_launches(limits: Limits) -> st.SearchStrategy[dict[str, Any]]:
    """Launches that make sense, but not on a device of these limits."""
    return st.one_of(
        _beyond(limits.block, limits.block_threads).map(lambda block: {"grid": 1, "block": block}),
        _beyond(limits.grid, math.prod(limits.grid)).map(lambda grid: {"grid": grid, "block": 32}),
        st.integers(1, 1 << 20).map(lambda n: {"grid": 1, "block": 32, "shared_mem": limits.shared_bytes + n}),
    )


@st.composite
def _beyond(draw: st.DrawFn, most: tuple[int, int, int], product: int) -> tuple[int, ...]:
    """Extents of which one is over its limit, or all together are."""
    axis = draw(st.sampled_from([axis for axis in range(3) if most[axis] < MOST]))
    extents = [draw(st.sampled_from([1, 2])) for _ in range(3)]
    extents[axis] = min(most[axis] + draw(st.integers(1, 1000)), MOST)
    if math.prod(most) > product and draw(st.booleans()):
        return most[0], draw(st.integers(product // most[0] + 1, most[1])), 1
    return tuple(extents)


def warp_launch_dims(size: int) -> st.SearchStrategy[Any]:
    """Launch dimensions of exactly ``size`` Warp threads along the first axis, in any form that is accepted."""
    return st.sampled_from([size, np.int32(size), (size,), [size], (size, 1), [size, 1, 1], (size, 1, 1, 1)])


def senseless_warp_launch_dims() -> st.SearchStrategy[Any]:
    """Launch dimensions that Warp kernels are refused with."""
    negative = st.integers(-(2**31), -1)
    return (
        negative
        | st.tuples(st.integers(0, 64), negative)
        | st.sampled_from([True, 1.0, "1", (), (1, 2, 3, 4, 5), (2, 1.5), (3, None)])
    )
