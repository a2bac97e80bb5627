"""Lets the threads of a block share a row in Warp kernels: each keeps a part of it in registers.

Warp's loops are jumps (1.19), which the compiler does not unroll: a thread has one load under way. Here it has KEPT.
Warp's reductions of tiles pass through shared memory at each step. Here a warp combines its values by shuffles.

Warp compiles a kernel for so many threads of a block: ``WP_TILE_BLOCK_DIM`` in C++. On the CPU a block is one thread.
"""

import functools
from typing import Any, NamedTuple

import numpy as np

from bridge.languages.warp.inputs import declare_writes
from suites.kernels.warp.blocks import scalar, wp
from suites.kernels.warp.vectors import FOUR, snippet_for

KEPT = 4
"""Vectors of a row that a thread keeps in registers."""

PART = KEPT * FOUR
"""Elements of a row that a thread keeps."""

FEWEST = 32
"""Threads that share a row at least: a warp, all of whose threads take part in shuffles."""

MOST_BYTES = 2048
"""Threads that share a row at most, times the bytes of an element: the registers of a multiprocessor hold the adjoints
of 512 threads of float32, or of 256 of float64."""


def threads_for(columns: int, dtype: Any) -> int:
    """Threads that share a row of so many elements: as few as can keep it, or the most if none can."""
    threads, most = FEWEST, MOST_BYTES // np.dtype(dtype).itemsize
    while threads < most and threads * PART < columns:
        threads *= 2
    return threads


_COMBINED = """
#if defined(__CUDA_ARCH__)
    constexpr int lanes = WP_TILE_BLOCK_DIM < 32 ? WP_TILE_BLOCK_DIM : 32, warps = (WP_TILE_BLOCK_DIM + 31) / 32;
    {element} combined = {value};
    #pragma unroll
    for (int step = lanes / 2; step > 0; step /= 2) {{
        const {element} other = __shfl_xor_sync(0xffffffff, combined, step);
        combined = {combine};
    }}
    if (warps > 1) {{
        __shared__ {element} of_warps[warps];
        if (threadIdx.x % 32 == 0)
            of_warps[threadIdx.x / 32] = combined;
        __syncthreads();
        combined = of_warps[threadIdx.x % warps];
        #pragma unroll
        for (int step = warps / 2; step > 0; step /= 2) {{
            const {element} other = __shfl_xor_sync(0xffffffff, combined, step);
            combined = {combine};
        }}
        __syncthreads();
    }}
#else
    const {element} combined = {value};
#endif
"""

_SUM, _LARGER = "combined + other", "other > combined ? other : combined"

_LOAD_PART = """
    wp::vec_t<{width}, {element}> found({absent});
#if defined(__CUDA_ARCH__)
    {type}
    const int lane = threadIdx.x;
    const {element}* const from = row.data + first + lane * {four};
    if (first + {width} * WP_TILE_BLOCK_DIM <= row.shape[0]) {{  // without conditions, all loads are under way at once
        #pragma unroll
        for (int v = 0; v < {width} / {four}; ++v) {{
            const Vector loaded = *(const Vector*)(from + v * WP_TILE_BLOCK_DIM * {four});
            #pragma unroll
            for (int k = 0; k < {four}; ++k)
                found.c[v * {four} + k] = loaded.at[k];
        }}
    }} else {{
        #pragma unroll
        for (int v = 0; v < {width} / {four}; ++v)
            if (first + (v * WP_TILE_BLOCK_DIM + lane) * {four} < row.shape[0]) {{
                const Vector loaded = *(const Vector*)(from + v * WP_TILE_BLOCK_DIM * {four});
                #pragma unroll
                for (int k = 0; k < {four}; ++k)
                    found.c[v * {four} + k] = loaded.at[k];
            }}
    }}
#endif
    return found;
"""

_ADJOINT_OF_LOAD_PART = """
#if defined(__CUDA_ARCH__)
    const int lane = threadIdx.x;
    for (int v = 0; v < {width} / {four}; ++v) {{
        const int at = first + (v * WP_TILE_BLOCK_DIM + lane) * {four};
        if (at < row.shape[0])
            for (int k = 0; k < {four}; ++k)
                wp::adj_address(row, at + k, adj_row, at + k, adj_ret.c[v * {four} + k]);
    }}
#endif
"""

_STORE_PART = """
#if defined(__CUDA_ARCH__)
    {type}
    const int lane = threadIdx.x;
    #pragma unroll
    for (int v = 0; v < {width} / {four}; ++v) {{
        const int at = first + (v * WP_TILE_BLOCK_DIM + lane) * {four};
        if (at < row.shape[0]) {{
            Vector stored;
            #pragma unroll
            for (int k = 0; k < {four}; ++k)
                stored.at[k] = part.c[v * {four} + k];
            *(Vector*)(row.data + at) = stored;
        }}
    }}
#endif
"""

_ADJOINT_OF_STORE_PART = """
#if defined(__CUDA_ARCH__)
    const int lane = threadIdx.x;
    for (int v = 0; v < {width} / {four}; ++v) {{
        const int at = first + (v * WP_TILE_BLOCK_DIM + lane) * {four};
        if (at < row.shape[0])
            for (int k = 0; k < {four}; ++k)
                wp::adj_array_store(
                    row, at + k, part.c[v * {four} + k], adj_row, at + k, adj_part.c[v * {four} + k]);
    }}
#endif
"""

_REDUCED = """
    #pragma unroll
    for (int k = 0; k < {width} - 1; ++k) {{
        // In turns, so that the additions do not wait for each other; the last three go to the first element.
        const bool in_turns = k < {width} - {four};
        const int at = in_turns ? k % {four} : {width} - 2 - k, from = in_turns ? k + {four} : at + 1;
        const {element} combined = part.c[at], other = part.c[from];
        part.c[at] = {combine};
    }}
    return part.c[0];
"""

_ADJOINT_OF_SUM = """
    for (int k = 0; k < {width}; ++k)
        adj_part.c[k] += adj_ret;
"""

_POWERS = """
    #pragma unroll
    for (int k = 0; k < {width}; ++k)
        part.c[k] = exp(part.c[k] - center);
    return part;
"""

_ADJOINT_OF_POWERS = """
    for (int k = 0; k < {width}; ++k) {{
        const {element} adjoint = adj_ret.c[k] * exp(part.c[k] - center);
        adj_part.c[k] += adjoint;
        adj_center -= adjoint;
    }}
"""


class Rows(NamedTuple):
    """The types and functions of a kernel for rows of one dtype.

    Attributes:
        kind: The Warp type of the part of a thread, a vector of PART elements.
        load: The function of a row and the first element to take: loads the part of this thread. The row begins at a
            multiple of VECTOR_BYTES, and its length is a multiple of FOUR. Parts beyond its end are zero.
        load_or_least: The same with minus infinity beyond the end of the row.
        store: The function of a row, the first element, and a part: stores it.
        powers: The function of a part and a number: the exponentials of the differences.
        total: The function that adds up a part.
        largest: The function that finds the largest element of a part; it has no adjoint.
        total_of_block: The function that adds up the values of all threads. Each gets the sum.
        largest_of_block: The function that finds their largest value, without NaN; it has no adjoint.
    """

    kind: Any
    load: Any
    load_or_least: Any
    store: Any
    powers: Any
    total: Any
    largest: Any
    total_of_block: Any
    largest_of_block: Any


@functools.cache
def rows_of(dtype: str) -> Rows:
    """Makes the functions for rows of a dtype. On the CPU only the functions of blocks have a use."""
    element = scalar(dtype)
    array, kind = wp.array(dtype=element), wp.types.vector(PART, element)
    native = f"wp::{dtype}"
    snippet = snippet_for(dtype, FOUR, width=PART, four=FOUR)
    summed, larger = snippet(_REDUCED, combine=_SUM), snippet(_REDUCED, combine=_LARGER)

    def combined(value: str, combine: str) -> str:
        return _COMBINED.format(element=native, value=value, combine=combine)

    adjoint_of_load, adjoint_of_store = snippet(_ADJOINT_OF_LOAD_PART), snippet(_ADJOINT_OF_STORE_PART)

    # Warp reads the type of a result only behind this one decorator.
    @wp.func_native(snippet(_LOAD_PART, absent=f"{native}(0)"), adjoint_of_load)
    def load(row: array, first: int) -> kind: ...

    @wp.func_native(snippet(_LOAD_PART, absent=f"-{native}(INFINITY)"), adjoint_of_load)
    def load_or_least(row: array, first: int) -> kind: ...

    @wp.func_native(snippet(_STORE_PART), adjoint_of_store, "return;")
    def store(row: array, first: int, part: kind): ...

    @wp.func_native(snippet(_POWERS), snippet(_ADJOINT_OF_POWERS))
    def powers(part: kind, center: element) -> kind: ...

    @wp.func_native(summed, snippet(_ADJOINT_OF_SUM))
    def total(part: kind) -> element: ...

    @wp.func_native(larger)
    def largest(part: kind) -> element: ...

    @wp.func_native(
        combined("value", _SUM) + "    return combined;\n",
        combined("adj_ret", _SUM) + "    adj_value += combined;\n",
    )
    def total_of_block(value: element) -> element: ...

    @wp.func_native(combined("value", _LARGER) + "    return combined;\n")
    def largest_of_block(value: element) -> element: ...

    return Rows(
        kind,
        declare_writes(load),
        declare_writes(load_or_least),
        declare_writes(store, "row"),
        powers,
        total,
        largest,
        total_of_block,
        largest_of_block,
    )


_SUM_OF_LANES = """
#if defined(__CUDA_ARCH__)
    const unsigned mask = (0xffffffffu >> (32 - {lanes})) << (threadIdx.x % 32 / {lanes} * {lanes});
    #pragma unroll
    for (int k = 0; k < {four}; ++k)
        #pragma unroll
        for (int distance = {width}; distance < {lanes}; distance *= 2)
            {values}.c[k] += __shfl_xor_sync(mask, {values}.c[k], distance);
#endif
"""


@functools.cache
def sum_of_lanes(dtype: str, width: int, groups: int) -> Any:
    """Makes the function that adds up vectors of FOUR over groups of threads of a warp. Each thread gets the sum.

    All threads of the groups must call it. They lie in one warp, and the first of them at a multiple of their number.

    Args:
        dtype: The dtype of the elements.
        width: Threads of a group, a power of two. Each adds up over the threads in its place of the other groups.
        groups: Groups that lie next to each other, a power of two; together they have at most 32 threads.
    """
    kind = wp.types.vector(FOUR, scalar(dtype))

    def snippet(values: str) -> str:
        return _SUM_OF_LANES.format(four=FOUR, width=width, lanes=width * groups, values=values)

    @wp.func_native(
        snippet("values") + "    return values;\n",
        f"    auto sum = adj_ret;\n{snippet('sum')}    adj_values = wp::add(adj_values, sum);\n",
    )
    def sum_of_lanes(values: kind) -> kind: ...

    return sum_of_lanes
