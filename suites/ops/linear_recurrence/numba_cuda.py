"""Kernels of linear_recurrence in Numba-CUDA."""

import numpy as np

from suites.kernels.numba_cuda.blocks import LOADS, THREADS, cuda, device, kernel
from suites.kernels.numba_cuda.warps import WARP, shuffle_up

WIDTH = 16
"""Channels of a block: this many float32 are the 64 bytes that memory reads at once."""

MOST_THREADS = 512
"""Threads of a block if there are few blocks: with more, each could have too few registers in float64."""

MANY_BLOCKS = 264
"""Blocks above which each is small: two for each of 132 multiprocessors."""

SEGMENTS = WARP // WIDTH
"""Segments of consecutive steps in a warp, one below the other."""

PLACES = (2, MOST_THREADS // SEGMENTS)
"""The values that warps pass on, in two rounds: an element for each channel of each warp."""


@device
def four_steps(x, t, c, absent):
    """LOADS steps of a channel from step t; ``absent`` after the last step."""
    steps, one, two, three = np.uint64(x.shape[0]), np.uint64(1), np.uint64(2), np.uint64(3)
    if t + three < steps:
        return x[t, c], x[t + one, c], x[t + two, c], x[t + three, c]
    p = q = r = absent
    if t < steps:
        p = x[t, c]
    if t + one < steps:
        q = x[t + one, c]
    if t + two < steps:
        r = x[t + two, c]
    return p, q, r, absent


@kernel
def linear_recurrence_cuda(a, b, initial, out):
    """A block takes WIDTH channels through time. Each of its threads takes a segment of LOADS steps at a time.

    Consecutive steps combine to one step of the same form, with its own decay and drive. A thread combines its
    own steps, shuffles combine the SEGMENTS of a warp, and shared memory passes the state from warp to warp.

    Memory has always something to do: the steps of the next round are loaded before this round's are combined. There
    are two places in shared memory that rounds use in turn. So one barrier a round is enough: who writes to a place
    has passed the barrier of the round between, and whoever read it before had to arrive there.
    """
    decays = cuda.shared.array(PLACES, out.dtype)
    drives = cuda.shared.array(PLACES, out.dtype)
    one, zero = out.dtype.type(1), out.dtype.type(0)
    i1, i2, i3 = np.uint64(1), np.uint64(2), np.uint64(3)
    steps, channels, width = np.uint64(a.shape[0]), np.uint64(a.shape[1]), np.uint64(WIDTH)
    segment, lane = np.uint64(cuda.threadIdx.y), np.uint64(cuda.threadIdx.x)
    warp, own = segment // np.uint64(SEGMENTS), segment % np.uint64(SEGMENTS)
    warps = np.uint64(cuda.blockDim.y) // np.uint64(SEGMENTS)
    channel = np.uint64(cuda.blockIdx.x) * width + lane
    inside = channel < channels
    c = min(channel, channels - i1)  # beyond the last channel, threads repeat its work and write nothing
    state = initial[c]
    t, stride = segment * np.uint64(LOADS), np.uint64(cuda.blockDim.y) * np.uint64(LOADS)
    next_a, next_b = four_steps(a, t, c, one), four_steps(b, t, c, zero)
    first, place = np.uint64(0), np.uint64(0)
    while first < steps:  # the same for all threads of a block: they synchronise in the loop
        now_a, now_b = next_a, next_b
        next_a, next_b = four_steps(a, t + stride, c, one), four_steps(b, t + stride, c, zero)
        decay = (now_a[0] * now_a[1]) * (now_a[2] * now_a[3])
        drive = ((now_b[0] * now_a[1] + now_b[1]) * now_a[2] + now_b[2]) * now_a[3] + now_b[3]
        reach = 1
        while reach < SEGMENTS:
            earlier_decay, earlier_drive = shuffle_up(decay, reach * WIDTH), shuffle_up(drive, reach * WIDTH)
            if own >= np.uint64(reach):
                drive = earlier_drive * decay + drive
                decay = earlier_decay * decay
            reach *= 2
        if own == np.uint64(SEGMENTS - 1):
            decays[place, warp * width + lane], drives[place, warp * width + lane] = decay, drive
        cuda.syncthreads()
        h = state
        other = np.uint64(0)
        while other < warps:
            if other == warp:
                h = state
            state = decays[place, other * width + lane] * state + drives[place, other * width + lane]
            other += i1
        decay, drive = shuffle_up(decay, WIDTH), shuffle_up(drive, WIDTH)
        if own > np.uint64(0):
            h = decay * h + drive
        if inside:
            h = now_a[0] * h + now_b[0]
            if t < steps:
                out[t, c] = h
            h = now_a[1] * h + now_b[1]
            if t + i1 < steps:
                out[t + i1, c] = h
            h = now_a[2] * h + now_b[2]
            if t + i2 < steps:
                out[t + i2, c] = h
            if t + i3 < steps:
                out[t + i3, c] = now_a[3] * h + now_b[3]
        t += stride
        first += stride
        place = i1 - place


def launch(inputs, outs):
    """Only threads with work share the steps, at least a warp; a block has more threads if there are few blocks."""
    steps, channels = outs[0].shape
    blocks = -(-channels // WIDTH)
    most = (THREADS if blocks > MANY_BLOCKS else MOST_THREADS) // WIDTH
    segments = SEGMENTS
    while segments < most and segments * LOADS < steps:
        segments *= 2
    return {"grid": blocks if steps else 0, "block": (WIDTH, segments)}
