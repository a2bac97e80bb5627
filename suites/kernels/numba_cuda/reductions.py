"""Reduces vectors and rows in Numba-CUDA kernels, by vector loads and shuffles of warps."""

from __future__ import annotations

import numpy as np

from suites.kernels.numba_cuda.blocks import THREADS, cuda, device, kernel, wide_dtype, wide_number, widened
from suites.kernels.numba_cuda.launches import await_launch, let_next_begin
from suites.kernels.numba_cuda.vectors import NEIGHBOURS, aligned, neighbours
from suites.kernels.numba_cuda.warps import WARPS, sum_of_lanes


@device
def sum_of_share(x, thread, threads):
    """Sum of this thread's share of a vector, of which ``threads`` threads take the NEIGHBOURS elements in turn.

    Four loads are under way at a time. The elements after the last whole vector are taken one by one, and so are all of
    a vector that is not :func:`aligned`.
    """
    size, each = np.uint64(x.size), np.uint64(NEIGHBOURS)
    a = b = c = d = wide_number(x, 0)
    whole = size // each if aligned(x) else np.uint64(0)
    i, step = np.uint64(thread), np.uint64(threads)
    while i + step * np.uint64(3) < whole:
        p, q = neighbours(x, i * each), neighbours(x, (i + step) * each)
        r, s = neighbours(x, (i + step * np.uint64(2)) * each), neighbours(x, (i + step * np.uint64(3)) * each)
        a += (p[0] + q[0]) + (r[0] + s[0])
        b += (p[1] + q[1]) + (r[1] + s[1])
        c += (p[2] + q[2]) + (r[2] + s[2])
        d += (p[3] + q[3]) + (r[3] + s[3])
        i += step * np.uint64(4)
    while i < whole:
        p = neighbours(x, i * each)
        a, b, c, d = a + p[0], b + p[1], c + p[2], d + p[3]
        i += step
    i = whole * each + np.uint64(thread)
    while i < size:
        a += widened(x[i])
        i += step
    return (a + b) + (c + d)


def reduction(result_of_share, result_of_lanes):
    """Makes the two kernels of a reduction: one for the part of each block, and one for the results of the blocks.

    The second begins before the first has ended (:mod:`suites.kernels.numba_cuda.launches`). It alone reduces what one
    block can.

    Args:
        result_of_share: A device function of ``(x, thread, threads)``, such as :func:`sum_of_share`.
        result_of_lanes: The result of :func:`suites.kernels.numba_cuda.warps.lanes_combined`.
    """

    @device
    def reduce(x, results):
        shared = cuda.shared.array(WARPS, wide_dtype(x))
        result = result_of_lanes(shared, result_of_share(x, cuda.grid(1), cuda.gridsize(1)), THREADS)
        if cuda.threadIdx.x == 0:
            results[cuda.blockIdx.x] = result

    @kernel
    def reduce_parts(x, results):
        """``results[b]`` becomes the result of the elements of x that block b takes."""
        let_next_begin()
        reduce(x, results)

    @kernel
    def reduce_results(results, out):
        """One block reduces the results of the blocks of the launch before."""
        await_launch()
        reduce(results, out)

    return reduce_parts, reduce_results


add_up_parts, add_up_sums = reduction(sum_of_share, sum_of_lanes)
