"""Kernels of nbody in Warp."""

import functools

from suites.kernels.warp.blocks import scalar, wp
from suites.ops.nbody.numba_cpu import SQUARED

PULL_THREADS = 64
"""Warp threads that share the work for one body: with one each, a few thousand bodies would leave a GPU idle."""


@functools.cache
def nbody_warp(dtype):
    """A block for each body. Its threads take turns at the other bodies."""
    real = scalar(dtype)
    vector = wp.types.vector(3, real)

    # The loop is in a function of its own: the adjoint of a kernel does not know the result of a loop in it.
    @wp.func
    def pull_of_share(positions: wp.array(dtype=vector), masses: wp.array(dtype=real), here: vector, lane: int):
        total = vector()
        for j in range(lane, masses.shape[0], wp.block_dim()):
            d = positions[j] - here
            distance2 = wp.dot(d, d) + real(SQUARED)
            total += (masses[j] / (distance2 * wp.sqrt(distance2))) * d
        return total

    @wp.kernel(module="unique")
    def nbody(positions: wp.array(dtype=vector), masses: wp.array(dtype=real), out: wp.array(dtype=vector)):
        body, lane = wp.tid() // PULL_THREADS, wp.tid() % PULL_THREADS
        if lane < wp.block_dim():  # a block is one thread on the CPU
            total = pull_of_share(positions, masses, positions[body], lane)
            wp.tile_store(out, wp.tile_sum(wp.tile(total, preserve_type=True)), offset=body)

    return nbody


def launch(inputs, outs):
    bodies = outs[0].shape[0]
    launch = {"launch_dims": bodies * PULL_THREADS, "block_dim": PULL_THREADS}
    return {**launch, "output_dims": bodies, "enable_backward": True}
