"""Scans vectors in one pass in Warp kernels, in C++.

Warp's own scan of a tile (1.19) knows no other tiles, and ``wp.utils.array_scan`` is no kernel. So the sums of tiles
before one would take a second pass over the elements. :mod:`suites.ops.cumsum.look_back` describes how blocks
learn them as they run, and why all runs give the same bits; here is the same in C++.
"""

import functools
from typing import Any

import numpy as np

from bridge.languages.warp.inputs import declare_writes
from suites.kernels.blocked_sums import BLOCK
from suites.kernels.warp.blocks import scalar, wp
from suites.ops.cumsum.look_back import look_back_words

SCAN_THREADS = 128
"""Threads of a block."""

ROWS = 8
"""Vectors of 16 bytes that each thread has of a tile."""

ROOM = 12
"""Blocks of a multiprocessor, as in the scan in Numba-CUDA (:mod:`suites.ops.cumsum`)."""

_LOOK_BACK = """
    typedef unsigned long long word;
    enum { WARP = 32, HALVES = sizeof(T) / 4 };
#if defined(__CUDA_ARCH__)
    struct Published {
        word* words;

        CUDA_CALLABLE word read(word i) const {
            word found;
            asm volatile("ld.relaxed.gpu.global.u64 %0, [%1];" : "=l"(found) : "l"(words + i) : "memory");
            return found;
        }

        CUDA_CALLABLE void publish(word place, T value) const {
            unsigned int halves[HALVES];
            memcpy(halves, &value, sizeof(T));
            for (int k = 0; k < HALVES; ++k) {
                const word marked = 1ull << 32 | halves[k];
                word* const address = words + 1 + place * HALVES + k;
                asm volatile("st.relaxed.gpu.global.u64 [%0], %1;" : : "l"(address), "l"(marked) : "memory");
            }
        }

        struct Seen {
            word halves[HALVES];
        };

        CUDA_CALLABLE Seen seen(word place) const {
            Seen found;
            for (int k = 0; k < HALVES; ++k)
                found.halves[k] = read(1 + place * HALVES + k);
            return found;
        }

        CUDA_CALLABLE T awaited(word place, Seen found) const {
            unsigned int halves[HALVES];
            for (int k = 0; k < HALVES; ++k) {
                while (found.halves[k] >> 32 == 0)
                    found.halves[k] = read(1 + place * HALVES + k);
                halves[k] = (unsigned int)found.halves[k];
            }
            T value;
            memcpy(&value, halves, sizeof(T));
            return value;
        }

        static CUDA_CALLABLE T sum_of_warp(T value) {
            for (int reach = WARP / 2; reach > 0; reach /= 2)
                value += __shfl_xor_sync(~0u, value, reach);
            return value;
        }

        // What sum_before does in numba_cuda_look_back.
        CUDA_CALLABLE T sum_before(word tile, word tiles, T total) const {
            const word lane = threadIdx.x % WARP, group = tile / WARP, place = tile % WARP;
            const word region = group / WARP, spot = group % WARP;
            const word groups = tiles, regions = groups + (tiles + WARP - 1) / WARP;
            Seen of_tile, of_other_group, of_region;
            if (lane < place)
                of_tile = seen(tile - place + lane);
            if (lane < spot)
                of_other_group = seen(groups + group - spot + lane);
            if (region > 0)
                of_region = seen(regions + region - 1);
            const T of_tiles = sum_of_warp(lane < place ? awaited(tile - place + lane, of_tile) : T(0));
            const T of_group = of_tiles + total;
            if (place == WARP - 1 && lane == 0)
                publish(groups + group, of_group);
            T before = sum_of_warp(lane < spot ? awaited(groups + group - spot + lane, of_other_group) : T(0));
            if (region > 0)
                before = awaited(regions + region - 1, of_region) + before;
            if (place == WARP - 1 && spot == WARP - 1 && lane == 0)
                publish(regions + region, before + of_group);
            return before + of_tiles;
        }
    };
#endif
"""

_SCAN = """
    const T* const from = (const T*)x.data;
    T* const to = (T*)out.data;
    const word size = x.shape[0];
#if defined(__CUDA_ARCH__)
    enum { WIDTH = 16 / sizeof(T), ROW = WARP * WIDTH, TILE = WARPS * ROWS * ROW };
    struct alignas(16) Vector {
        T at[WIDTH];
    };
    __shared__ Vector kept[TILE / WIDTH];
    __shared__ T totals[WARPS], sum_before_tile;
    __shared__ word ticket;
    const Published published = { (word*)words.data };
    const word tiles = (size + TILE - 1) / TILE;
    if (threadIdx.x == 0)
        ticket = atomicAdd(published.words, 1ull);
    __syncthreads();
    const int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
    const word tile = ticket, first = tile * TILE + warp * ROWS * ROW + lane * WIDTH;
    const bool whole = ((word)from | (word)to) % sizeof(Vector) == 0 && (tile + 1) * TILE <= size;
    Vector* const own = kept + warp * ROWS * WARP + lane;

    #pragma unroll
    for (int row = 0; row < ROWS; ++row)
        if (whole) {
#if __CUDA_ARCH__ >= 800
            const unsigned int address = __cvta_generic_to_shared(own + row * WARP);
            const T* const origin = from + first + row * ROW;
            asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" : : "r"(address), "l"(origin) : "memory");
#else
            own[row * WARP] = *(const Vector*)(from + first + row * ROW);
#endif
        } else {
            for (int k = 0; k < WIDTH; ++k) {
                const word i = first + row * ROW + k;
                own[row * WARP].at[k] = i < size ? from[i] : T(0);
            }
        }
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.wait_all;" : : : "memory");
#endif

    // Other blocks wait for the sum of the tile, so it comes first.
    T sum = 0;
    #pragma unroll
    for (int row = 0; row < ROWS; ++row) {
        const Vector values = own[row * WARP];
        #pragma unroll
        for (int k = 0; k < WIDTH; ++k)
            sum += values.at[k];
    }
    sum = Published::sum_of_warp(sum);
    if (lane == 0)
        totals[warp] = sum;
    __syncthreads();
    T before = 0, total = 0;
    #pragma unroll
    for (int other = 0; other < WARPS; ++other) {
        if (other == warp)
            before = total;
        total += totals[other];
    }
    if (threadIdx.x == 0)
        published.publish(tile, total);

    #pragma unroll
    for (int row = 0; row < ROWS; ++row) {
        Vector values = own[row * WARP];
        #pragma unroll
        for (int k = 1; k < WIDTH; ++k)
            values.at[k] += values.at[k - 1];
        T lanes = values.at[WIDTH - 1];
        #pragma unroll
        for (int reach = 1; reach < WARP; reach *= 2) {
            const T lower = __shfl_up_sync(~0u, lanes, reach);
            if (lane >= reach)
                lanes += lower;
        }
        const T lower = __shfl_up_sync(~0u, lanes, 1), start = lane > 0 ? before + lower : before;
        before += __shfl_sync(~0u, lanes, WARP - 1);
        #pragma unroll
        for (int k = 0; k < WIDTH; ++k)
            values.at[k] += start;
        own[row * WARP] = values;
    }
    if (warp == 0) {
        const T found = published.sum_before(tile, tiles, total);
        if (lane == 0)
            sum_before_tile = found;
    }
    __syncthreads();
    #pragma unroll
    for (int row = 0; row < ROWS; ++row) {
        Vector values = own[row * WARP];
        #pragma unroll
        for (int k = 0; k < WIDTH; ++k)
            values.at[k] += sum_before_tile;
        const word i = first + row * ROW;
        if (whole)
            *(Vector*)(to + i) = values;
        else
            for (int k = 0; k < WIDTH; ++k)
                if (i + k < size)
                    to[i + k] = values.at[k];
    }
#else
    // Threads run one after the other. The first does all: four quarters of a block side by side, since in a single
    // chain each addition would wait for the one before.
    if (words.data[0] > 0)
        return;
    words.data[0] = 1;
    enum { QUARTER = BLOCK / 4 };
    T before = 0;
    for (word start = 0; start < size; start += BLOCK) {
        const T* const block = from + start;
        T* const sums = to + start;
        T a = 0, b = 0, c = 0, d = 0;
        if (start + BLOCK <= size) {
            for (int i = 0; i < QUARTER; ++i) {
                sums[i] = a += block[i];
                sums[i + QUARTER] = b += block[i + QUARTER];
                sums[i + 2 * QUARTER] = c += block[i + 2 * QUARTER];
                sums[i + 3 * QUARTER] = d += block[i + 3 * QUARTER];
            }
            const T before_b = before + a, before_c = before + (a + b), before_d = before + (a + b + c);
            for (int i = 0; i < QUARTER; ++i) {
                sums[i] += before;
                sums[i + QUARTER] += before_b;
                sums[i + 2 * QUARTER] += before_c;
                sums[i + 3 * QUARTER] += before_d;
            }
        } else {
            for (word i = 0; i < size - start; ++i)
                sums[i] = before + (a += block[i]);
        }
        before += (a + b) + (c + d);
    }
#endif
"""


def _tiles(size: int, itemsize: int) -> int:
    return -(-size // (SCAN_THREADS * ROWS * 16 // itemsize))


def scan_words(size: int, dtype: Any) -> int:
    """The elements of uint32 that the blocks of a scan share: zeros before the launch."""
    tiles = _tiles(size, np.dtype(dtype).itemsize)
    return 2 * look_back_words(tiles, dtype) if tiles else 0


def scan_launch(size: int, dtype: Any) -> dict[str, Any]:
    """The launch of a kernel of :func:`scan_of`, as options of :func:`bridge.jax_kernel`."""
    return {"launch_dims": (_tiles(size, np.dtype(dtype).itemsize), SCAN_THREADS), "block_dim": SCAN_THREADS}


@functools.cache
def scan_of(dtype: str) -> Any:
    """Makes the kernel of ``(x, words, out)`` that writes the running sums of ``x``. It has no adjoint.

    Integers wrap around: they are added up without their signs, whose overflow C++ does not define.

    Args:
        dtype: A dtype of 32 or 64 bits.
    """
    element = scalar(dtype)
    vector, shared = wp.array(dtype=element), wp.array(dtype=wp.uint32)
    kind = dtype if dtype.startswith("float") else "u" + dtype.removeprefix("u")
    types = f"typedef wp::{kind} T; enum {{ ROWS = {ROWS}, WARPS = {SCAN_THREADS // 32}, BLOCK = {BLOCK} }};"

    @wp.func_native(types + _LOOK_BACK + _SCAN)
    def scan_tiles(out: vector, words: shared, x: vector): ...

    declare_writes(scan_tiles, "out")

    @wp.kernel(module="unique", enable_backward=False, launch_bounds=(SCAN_THREADS, ROOM))
    def scan(x: vector, words: shared, out: vector):
        scan_tiles(out, words, x)

    return scan
