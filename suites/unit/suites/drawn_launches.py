"""Draws launches of kernels: right ones in every form that is accepted, and mistakes that must be refused.

Launches are the arguments of :func:`bridge.numba_cuda_kernel` and :func:`bridge.cuda_raw_kernel`, as a dict.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from hypothesis import strategies as st

from bridge.ffi.cuda.devices import Limits
from bridge.languages.launch_shape import MOST

_BLOCKS = (1, 32, 64, 100, 256, 1024)


@st.composite
def launches(draw: st.DrawFn, size: int) -> dict[str, Any]:
    """Launches of ``size`` threads or more in x, in any form that is accepted and within the default ``Limits``."""
    threads = draw(st.sampled_from(_BLOCKS))
    shared = draw(st.just({}) | st.sampled_from([0, 1, 1024, Limits().shared_bytes]).map(lambda n: {"shared_mem": n}))
    if draw(st.booleans()):
        chosen = draw(st.just({}) | st.just({"threads_per_block": threads}))
        return {"launch_dims": draw(_in_some_form(max(size, 1))), **chosen, **shared}
    blocks = -(-max(size, 1) // threads) + draw(st.integers(0, 2))
    return {"grid": draw(_in_some_form(blocks)), "block": draw(_in_some_form(threads)), **shared}


def _in_some_form(extent: int) -> st.SearchStrategy[Any]:
    """An extent in x: alone or with ones after it, as a Python or NumPy integer, in a tuple or a list."""
    return st.sampled_from([extent, np.int64(extent), (extent,), [extent], (extent, 1), [extent, 1, 1]])


def senseless_launches() -> st.SearchStrategy[dict[str, Any]]:
    """Launches that are refused for every device, before anything is compiled."""
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
    """Wrong extents: a number up to ``largest``, another type, no extent, or too many."""
    number = st.integers(-(2**40), largest)
    other = st.sampled_from([True, 1.0, "1", (), (1, 1, 1, 1), (2, 1.5)])
    return number | other | st.tuples(st.integers(1, 64), number)


def oversized_launches(limits: Limits) -> st.SearchStrategy[dict[str, Any]]:
    """Launches that are beyond the limits of a device."""
    return st.one_of(
        _beyond(limits.block, limits.block_threads).map(lambda block: {"grid": 1, "block": block}),
        _beyond(limits.grid, math.prod(limits.grid)).map(lambda grid: {"grid": grid, "block": 32}),
        st.integers(1, 1 << 20).map(lambda n: {"grid": 1, "block": 32, "shared_mem": limits.shared_bytes + n}),
    )


@st.composite
def _beyond(draw: st.DrawFn, most: tuple[int, int, int], product: int) -> tuple[int, ...]:
    """Extents of which one is beyond its limit, or whose product is."""
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
    """Launch dimensions that are refused for Warp kernels."""
    negative = st.integers(-(2**31), -1)
    return (
        negative
        | st.tuples(st.integers(0, 64), negative)
        | st.sampled_from([True, 1.0, "1", (), (1, 2, 3, 4, 5), (2, 1.5), (3, None)])
    )
