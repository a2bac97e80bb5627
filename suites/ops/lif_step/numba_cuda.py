"""Kernels of lif_step in Numba-CUDA."""

import numpy as np

from suites.kernels.numba_cuda.blocks import device, kernel, widened
from suites.kernels.numba_cuda.vectors import aligned, neighbour_tile, neighbours, store_neighbours


@device
def integrated(v, current, leak, rest, step):
    return v + step * (-(v - rest) * leak + current)


@kernel
def lif_step_cuda(V, current, tau_inv, V_th, V_rest, dt, V_out, spikes):
    threshold, rest, leak, step = widened(V_th[0]), widened(V_rest[0]), widened(tau_inv[0]), widened(dt[0])
    i, stop, full = neighbour_tile(V.size)
    if full and aligned(V) and aligned(current) and aligned(spikes) and aligned(V_out):
        v, j = neighbours(V, i), neighbours(current, i)
        a = integrated(v[0], j[0], leak, rest, step)
        b = integrated(v[1], j[1], leak, rest, step)
        c = integrated(v[2], j[2], leak, rest, step)
        d = integrated(v[3], j[3], leak, rest, step)
        fires = a >= threshold, b >= threshold, c >= threshold, d >= threshold
        store_neighbours(spikes, i, fires)
        reset = rest if fires[0] else a, rest if fires[1] else b, rest if fires[2] else c, rest if fires[3] else d
        store_neighbours(V_out, i, reset)
    else:
        while i < stop:
            a = integrated(widened(V[i]), widened(current[i]), leak, rest, step)
            spikes[i] = a >= threshold
            V_out[i] = rest if a >= threshold else a
            i += np.uint64(1)
