"""Kernels of linear_recurrence in Numba-CUDA."""

import numpy as np

from suites.backends.numba_cuda import (
    LOADS,
    NEIGHBOURS,
    THREADS,
    WARP,
    aligned,
    carried_through,
    cuda,
    device,
    kernel,
    loads_of,
    neighbours,
    roomy_kernel,
    shuffle_up,
    single_neighbours,
    store_neighbours,
    store_single_neighbours,
    stores_of,
    tree_of,
)
from suites.kernels.numba_cuda.shared import KEPT_ALIGNMENT, keep_neighbours, kept_neighbours

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


LANES = 4
"""Threads side by side in :func:`linear_recurrence_in_vectors`, each with the channels of a vector."""

ROWS = 32
"""Segments of consecutive steps in a block of this kernel, one below the other."""

STEPS = 4
"""Steps of a segment."""

ROOM = 3
"""Blocks of a multiprocessor. Each thread has 168 registers, which hold the vectors of three rounds."""

BELOW = WARP // LANES
"""Segments in a warp."""

PASSED_ON = ROWS // BELOW * LANES * NEIGHBOURS
"""The values that the warps of a block pass on in a round: an element for each channel of each warp."""

KEPT = 2 * PASSED_ON
"""Two rounds have places in shared memory, as in :func:`linear_recurrence_cuda`."""


@device
def same(value):
    return value


@device
def product(p, q):
    return p[0] * q[0], p[1] * q[1], p[2] * q[2], p[3] * q[3]


@device
def following_state(h, step):
    """The states of four channels after a step."""
    a, b = step
    return a[0] * h[0] + b[0], a[1] * h[1] + b[1], a[2] * h[2] + b[2], a[3] * h[3] + b[3]


@device
def combined(earlier, later):
    """The step that is equal to two consecutive steps."""
    return product(earlier[0], later[0]), following_state(earlier[1], later)


@device
def below(v, distance):
    """The vector of the thread that is ``distance`` lanes below this one."""
    a, b = shuffle_up(v[0], distance), shuffle_up(v[1], distance)
    return a, b, shuffle_up(v[2], distance), shuffle_up(v[3], distance)


@device
def step_at(arrays, first, j, stop):
    """The step of four channels whose decays and drives begin at element ``first + j`` of two arrays."""
    return neighbours(arrays[0], first + j), neighbours(arrays[1], first + j)


@device
def single_step_at(arrays, first, j, stop):
    """Returns :func:`step_at`, element by element; from element ``stop`` on, the step that changes nothing."""
    a, b = arrays
    one, zero = b.dtype.type(1), b.dtype.type(0)
    if first + j < stop:
        return single_neighbours(a, first + j), single_neighbours(b, first + j)
    return (one, one, one, one), (zero, zero, zero, zero)


@device
def store_state(out, first, j, stop, h):
    if first + j < stop:
        store_neighbours(out, first + j, h)


@device
def store_single_state(out, first, j, stop, h):
    if first + j < stop:
        store_single_neighbours(out, first + j, h)


steps_from, single_steps_from = loads_of(step_at, STEPS), loads_of(single_step_at, STEPS)

store_states, store_single_states = stores_of(store_state, STEPS), stores_of(store_single_state, STEPS)

combined_steps, states_after = tree_of(same, combined, STEPS), carried_through(following_state, STEPS)


@device
def segment_at(arrays, i, row, stop, are_aligned):
    """The steps of a segment, of which the first has element i."""
    if are_aligned and i + row * np.uint64(STEPS - 1) < stop:
        return steps_from(arrays, i, np.uint64(0), row, stop)
    return single_steps_from(arrays, i, np.uint64(0), row, stop)


@roomy_kernel(LANES * ROWS, ROOM)
def linear_recurrence_in_vectors(a, b, initial, out):
    """Works as :func:`linear_recurrence_cuda`, for channels that fill vectors.

    A thread has four channels, so an instruction loads 16 bytes, and a barrier serves four times the elements. The
    steps of two later rounds are on their way while a round is combined.
    """
    decays = cuda.shared.array(KEPT, out.dtype, KEPT_ALIGNMENT)
    drives = cuda.shared.array(KEPT, out.dtype, KEPT_ALIGNMENT)
    zero, row, size = np.uint64(0), np.uint64(a.shape[1]), np.uint64(a.size)
    segment, lane = np.uint64(cuda.threadIdx.y), np.uint64(cuda.threadIdx.x)
    warp, own = segment // np.uint64(BELOW), segment % np.uint64(BELOW)
    channel = (np.uint64(cuda.blockIdx.x) * np.uint64(LANES) + lane) * np.uint64(NEIGHBOURS)
    c, stop = (channel, size) if channel < row else (zero, zero)  # after the last channel, threads write nothing
    arrays, are_aligned = (a, b), aligned(a) and aligned(b) and aligned(out)
    state = single_neighbours(initial, c)
    stride = np.uint64(ROWS * STEPS) * row
    i, place = segment * np.uint64(STEPS) * row + c, lane * np.uint64(NEIGHBOURS)
    now = segment_at(arrays, i, row, size, are_aligned)
    later = segment_at(arrays, i + stride, row, size, are_aligned)
    first, turn = zero, zero
    while first < size:  # the same for all threads of a block: they synchronise in the loop
        last = segment_at(arrays, i + stride * np.uint64(2), row, size, are_aligned)
        step = combined_steps(now)
        reach = 1
        while reach < BELOW:
            earlier = below(step[0], reach * LANES), below(step[1], reach * LANES)
            if own >= np.uint64(reach):
                step = combined(earlier, step)
            reach *= 2
        if own == np.uint64(BELOW - 1):
            keep_neighbours(decays, turn + warp * np.uint64(LANES * NEIGHBOURS) + place, step[0])
            keep_neighbours(drives, turn + warp * np.uint64(LANES * NEIGHBOURS) + place, step[1])
        cuda.syncthreads()
        h = state
        for other in range(ROWS // BELOW):
            if np.uint64(other) == warp:
                h = state
            of_warp = turn + np.uint64(other * LANES * NEIGHBOURS) + place
            state = following_state(state, (kept_neighbours(decays, of_warp), kept_neighbours(drives, of_warp)))
        before = below(step[0], LANES), below(step[1], LANES)
        if own > zero:
            h = following_state(h, before)
        states = states_after(h, now)
        if are_aligned:
            store_states(out, i, zero, row, stop, states)
        else:
            store_single_states(out, i, zero, row, stop, states)
        now, later = later, last
        i += stride
        first += stride
        turn = np.uint64(PASSED_ON) - turn


def _in_vectors(outs):
    """Whether all threads have work, vectors begin at multiples of their size, and registers hold them."""
    steps, channels = outs[0].shape
    return steps >= ROWS * STEPS and channels % NEIGHBOURS == 0 and outs[0].dtype.itemsize == 4


def select(inputs, outs):
    return linear_recurrence_in_vectors if _in_vectors(outs) else linear_recurrence_cuda


def launch(inputs, outs):
    """Only threads with work share the steps, at least a warp; a block has more threads if there are few blocks."""
    steps, channels = outs[0].shape
    if _in_vectors(outs):
        return {"grid": -(-channels // (LANES * NEIGHBOURS)), "block": (LANES, ROWS)}
    blocks = -(-channels // WIDTH)
    most = (THREADS if blocks > MANY_BLOCKS else MOST_THREADS) // WIDTH
    segments = SEGMENTS
    while segments < most and segments * LOADS < steps:
        segments *= 2
    return {"grid": blocks if steps else 0, "block": (WIDTH, segments)}
