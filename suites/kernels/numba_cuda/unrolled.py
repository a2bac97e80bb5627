"""Makes device functions for a number of vectors that is known before the kernel is compiled.

A kernel that works on a tuple of vectors has them all in registers. The number is a power of two, and each function is
made of two functions for half of it. So all loads come first, and sums are trees.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from suites.kernels.numba_cuda.blocks import device

__all__ = ["carried_through", "loads_of", "stores_of", "tree_of"]


def loads_of(load: Any, count: int) -> Any:
    """Makes the function of ``(x, first, j, step, stop)`` that returns a tuple of vectors, ``step`` elements apart.

    Args:
        load: A device function of ``(x, first, j, stop)`` that loads the vector of column j.
        count: The number of vectors.
    """
    if count == 1:

        @device
        def one(x, first, j, step, stop):
            return (load(x, first, j, stop),)

        return one
    half, distance = loads_of(load, count // 2), count // 2

    @device
    def both(x, first, j, step, stop):
        return half(x, first, j, step, stop) + half(x, first, j + step * np.uint64(distance), step, stop)

    return both


def stores_of(store: Any, count: int) -> Any:
    """Makes the function of ``(out, first, j, step, stop, vectors)`` that stores the elements of :func:`loads_of`."""
    if count == 1:

        @device
        def one(out, first, j, step, stop, vectors):
            store(out, first, j, stop, vectors[0])

        return one
    half, distance = stores_of(store, count // 2), count // 2

    @device
    def both(out, first, j, step, stop, vectors):
        half(out, first, j, step, stop, vectors[:distance])
        half(out, first, j + step * np.uint64(distance), step, stop, vectors[distance:])

    return both


def tree_of(value: Any, combine: Any, count: int) -> Any:
    """Makes the function that combines the values of the vectors of a tuple, in a tree.

    Args:
        value: A device function of a vector.
        combine: A device function of two values.
        count: The number of vectors.
    """
    if count == 1:

        @device
        def one(vectors):
            return value(vectors[0])

        return one
    half, distance = tree_of(value, combine, count // 2), count // 2

    @device
    def both(vectors):
        return combine(half(vectors[:distance]), half(vectors[distance:]))

    return both


def carried_through(function: Any, count: int) -> Any:
    """Makes the function of ``(carry, vectors)`` that applies a function to one vector after the other.

    It returns the tuple of the function's results.

    Args:
        function: A device function of a carry and a vector. Its result is the carry for the next vector.
        count: The number of vectors.
    """
    if count == 1:

        @device
        def one(carry, vectors):
            return (function(carry, vectors[0]),)

        return one
    half, distance, last = carried_through(function, count // 2), count // 2, count // 2 - 1

    @device
    def both(carry, vectors):
        first = half(carry, vectors[:distance])
        return first + half(first[last], vectors[distance:])

    return both
