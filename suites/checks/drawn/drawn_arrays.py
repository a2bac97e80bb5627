"""Draws arrays, and the inputs of an operator, with values that break careless kernels.

Compiling a program for each combination of shapes and dtypes takes far longer than running it. So sizes are drawn
from a few (:data:`SIZES`), and so are the rows of sparse matrices and the extents of batches. Values, structures and
positions vary freely.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from suites.checks.drawn.battery import is_parameter
from suites.declare.domain import Domain
from suites.numerics.arrays import Array, Inputs

SIZES = (1, 5, 33, 257)
"""Nominal sizes, and numbers of non-zeros: one, fewer than a vector register holds, and just above powers of two."""

FEW_SIZES = (5, 33)
"""Nominal sizes of drawn samples; other checks try many sizes."""

SEEDS = st.integers(0, 2**32 - 1)


class Sampled(Protocol):
    """The part of an operator that its inputs are drawn from."""

    @property
    def dtypes(self) -> Sequence[Any]: ...
    @property
    def sample(self) -> Callable[[str, int, int], Inputs]: ...
    @property
    def outputs(self) -> Callable[..., list[Any]]: ...
    @property
    def domain_of(self) -> Callable[[int], Domain]: ...


def special_values(dtype: str) -> tuple[Any, ...]:
    """Values that break careless kernels. None is so large that an operator's intermediate results overflow."""
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
    """Single values: special ones, small integers, and floats whose powers do not overflow.

    Args:
        dtype: Their dtype.
        without: The floats that are left out: ``infinite`` or ``subnormal``.
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


@st.composite
def samples(
    draw: st.DrawFn, operator: Sampled, dtypes: Sequence[str] | None = None, sizes: Sequence[int] = FEW_SIZES
) -> Inputs:
    """Inputs of an operator in one of its dtypes: samples with :func:`elements` in drawn places, within their domains.

    Inputs of one element, while others have several, stay as they are. Infinite and subnormal numbers never come
    together: their product is infinite, but NaN on XLA's threads, which flush subnormal numbers to zero.
    """
    dtype = draw(st.sampled_from(dtypes or operator.dtypes))
    size, seed = draw(st.sampled_from(sizes)), draw(SEEDS)
    inputs = operator.sample(dtype, size, seed)
    without = draw(st.sampled_from(["infinite", "subnormal"]))
    return tuple(
        array
        if is_parameter(array, inputs) or not array.size or operator.domain_of(index).fixed
        else operator.domain_of(index).fitted(draw(_disturbed(array, without)), array, inputs)
        for index, array in enumerate(inputs)
    )


@st.composite
def _disturbed(draw: st.DrawFn, array: Array, without: str) -> Array:
    """The array with other values in a few places. Hypothesis makes them fewer as it shrinks an example."""
    places = draw(st.dictionaries(st.integers(0, array.size - 1), elements(array.dtype.name, without), max_size=8))
    result = array.copy()
    for place, value in places.items():
        result.flat[place] = value
    return result
