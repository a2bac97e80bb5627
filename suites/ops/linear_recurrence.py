"""linear_recurrence: ``h[t] = a[t] * h[t-1] + b[t]`` along the first axis of arrays of steps and channels.

``h[-1]`` is ``initial``, one state for each channel. Nominal size is the number of elements of ``a``. Precondition:
products of ``a`` over any consecutive steps are finite, because kernels that combine steps multiply them.
"""

import functools
import math

import jax
import numba
import numpy as np

import bridge
from suites import (
    CudaKernel,
    Domain,
    ErrorCase,
    Expected,
    Failure,
    Gradient,
    Operator,
    Sizes,
    Truth,
    WarpCallable,
    total_bytes,
    value_errors,
    values,
    vectors,
    wide,
)
from suites.backends.numba_cpu import ONE_THREAD_BELOW
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
from suites.backends.numba_cuda_shared import KEPT_ALIGNMENT, keep_neighbours, kept_neighbours
from suites.backends.warp import TILE_THREADS, blocks, scalar, wp

CACHE_LINE = 16
"""The fewest channels of a thread: with fewer, two threads would write to one line of a cache."""


@numba.njit
def step(a, b, before, after):
    """One step of all channels."""
    for c in range(after.size):
        after[c] = a[c] * before[c] + b[c]


@numba.njit
def steps_of(a, b, initial, out, first, last):
    """All steps of the channels from ``first`` up to ``last``."""
    if out.shape[0]:
        step(a[0, first:last], b[0, first:last], initial[first:last], out[0, first:last])
    for t in range(1, out.shape[0]):
        step(a[t, first:last], b[t, first:last], out[t - 1, first:last], out[t, first:last])


@numba.njit
def linear_recurrence(a, b, initial, out):
    if a.shape != b.shape or a.shape[1] != initial.size:
        raise ValueError("linear_recurrence: a and b must have one shape, and initial an element for each column")
    steps_of(a, b, initial, out, 0, initial.size)


@numba.njit(parallel=True)
def linear_recurrence_parallel(a, b, initial, out):
    """Each thread has its own channels: sharing the steps of a channel would take twice the work."""
    parts = min(numba.get_num_threads(), initial.size // CACHE_LINE)
    if out.size < ONE_THREAD_BELOW or parts < 2:
        linear_recurrence(a, b, initial, out)
    else:
        if a.shape != b.shape or a.shape[1] != initial.size:
            raise ValueError("linear_recurrence: a and b must have one shape, and initial an element for each column")
        lines = initial.size // CACHE_LINE
        for part in numba.prange(parts):
            first = lines * part // parts * CACHE_LINE
            last = lines * (part + 1) // parts * CACHE_LINE if part + 1 < parts else initial.size
            steps_of(a, b, initial, out, first, last)


WIDTH = 16
"""Channels of a block: this many float32 are the 64 bytes that memory reads at once."""

MOST_THREADS = 512
"""Threads of a block if there are few blocks: with more, each could have too few registers in float64."""

MANY_BLOCKS = 264
"""Blocks above which each is small: two for each of 132 multiprocessors."""

SEGMENTS = WARP // WIDTH
"""Segments of consecutive steps in a warp, one below the other."""

PLACES = (2, MOST_THREADS // SEGMENTS)
"""What warps pass on, in two rounds: an element for each channel of each warp."""


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
"""What the warps of a block pass on in a round: an element for each channel of each warp."""

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
    """The step that does what two consecutive ones do."""
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
    """What :func:`step_at` gives, element by element; from element ``stop`` on, the step that changes nothing."""
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
    """Does what :func:`linear_recurrence_cuda` does, for channels that fill vectors.

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


def _select(inputs, outs):
    return linear_recurrence_in_vectors if _in_vectors(outs) else linear_recurrence_cuda


def _launch(inputs, outs):
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


CHANNELS = TILE_THREADS
"""Channels that a Warp block works on, as one tile."""

# Warp's adjoints do not know the values that a loop of run-time length carries from step to step. So these kernels read
# the step before from the array that they have written it to. Each thread reads only its own results.


@functools.cache
def combine_warp(dtype):
    """Combines the steps of a part up to each step, into a decay and a drive for the state before the part."""
    element = scalar(dtype)
    vector = wp.array(dtype=element)

    @wp.kernel(module="unique")
    def combine(a: vector, b: vector, each: int, steps: int, channels: int, decays: vector, drives: vector):
        tiles = (channels + CHANNELS - 1) // CHANNELS
        part = wp.tid() // tiles
        c = (wp.tid() - part * tiles) * CHANNELS
        row, end = part * each * channels, wp.min((part + 1) * each, steps) * channels
        wp.tile_store(decays[row : row + channels], wp.tile_load(a[row : row + channels], CHANNELS, c), c)
        wp.tile_store(drives[row : row + channels], wp.tile_load(b[row : row + channels], CHANNELS, c), c)
        for start in range(row + channels, end, channels):
            stop = start + channels
            decay = wp.tile_load(a[start:stop], CHANNELS, c)
            combined = wp.tile_map(wp.mul, decay, wp.tile_load(decays[start - channels : start], CHANNELS, c))
            driven = wp.tile_map(wp.mul, decay, wp.tile_load(drives[start - channels : start], CHANNELS, c))
            wp.tile_store(decays[start:stop], combined, c)
            wp.tile_store(drives[start:stop], driven + wp.tile_load(b[start:stop], CHANNELS, c), c)

    return combine


@functools.cache
def follow_warp(dtype):
    """Computes the state before each part."""
    element = scalar(dtype)
    vector = wp.array(dtype=element)

    @wp.kernel(module="unique")
    def follow(decays: vector, drives: vector, initial: vector, each: int, parts: int, channels: int, states: vector):
        c = wp.tid() * CHANNELS
        wp.tile_store(states[0:channels], wp.tile_load(initial, CHANNELS, c), c)
        for part in range(1, parts):
            state, stop = (part - 1) * channels, part * each * channels
            before = wp.tile_load(states[state : state + channels], CHANNELS, c)
            decayed = wp.tile_map(wp.mul, wp.tile_load(decays[stop - channels : stop], CHANNELS, c), before)
            after = decayed + wp.tile_load(drives[stop - channels : stop], CHANNELS, c)
            wp.tile_store(states[state + channels : state + 2 * channels], after, c)

    return follow


@functools.cache
def resume_warp(dtype):
    """Computes the states of all steps from the states before the parts."""
    element = scalar(dtype)
    vector = wp.array(dtype=element)

    @wp.kernel(module="unique")
    def resume(decays: vector, drives: vector, states: vector, each: int, steps: int, channels: int, out: vector):
        tiles = (channels + CHANNELS - 1) // CHANNELS
        part = wp.tid() // tiles
        c = (wp.tid() - part * tiles) * CHANNELS
        row, end = part * each * channels, wp.min((part + 1) * each, steps) * channels
        state = wp.tile_load(states[part * channels : (part + 1) * channels], CHANNELS, c)
        for start in range(row, end, channels):
            decayed = wp.tile_map(wp.mul, wp.tile_load(decays[start : start + channels], CHANNELS, c), state)
            after = decayed + wp.tile_load(drives[start : start + channels], CHANNELS, c)
            wp.tile_store(out[start : start + channels], after, c)

    return resume


def linear_recurrence_warp(inputs, outs):
    """Uses as many parts as steps per part, so that the loop over parts is as long as the loop over steps.

    Arrays are passed as vectors: Warp's CPU code is slow with the strides of matrices.
    """
    a, b, initial = inputs
    if a.shape != b.shape or a.shape[1:] != initial.shape:
        raise ValueError("linear_recurrence: a and b must have one shape, and initial an element for each column")
    dtype, (steps, channels) = str(outs[0].dtype), outs[0].shape
    each = max(1, math.isqrt(steps))
    parts, tiles = -(-steps // each), -(-channels // CHANNELS)
    every, states = {**blocks(parts * tiles), "output_dims": steps * channels}, parts * channels
    combine = bridge.jax_kernel(combine_warp(dtype), num_outputs=2, **every)
    follow = bridge.jax_kernel(follow_warp(dtype), **blocks(tiles if steps else 0), output_dims=states)
    resume = bridge.jax_kernel(resume_warp(dtype), **every)

    def linear_recurrence(a, b, initial):
        decays, drives = combine(a.reshape(-1), b.reshape(-1), each, steps, channels)
        (states,) = follow(decays, drives, initial, each, parts, channels)
        (h,) = resume(decays, drives, states, each, steps, channels)
        return [h.reshape(b.shape)]

    return linear_recurrence


def _one_by_one(a, b, initial):
    def step(h, now):
        h = now[0] * h + now[1]
        return h, h

    return jax.lax.scan(step, initial, (a, b))[1]


def _all_at_once(a, b, initial):
    def combine(earlier, later):
        return earlier[0] * later[0], earlier[1] * later[0] + later[1]

    return jax.lax.associative_scan(combine, (a, b.at[0].add(a[0] * initial)))[1]


def _reference(a, b, initial):
    if not a.shape[0]:
        return [b]
    # The fastest ways: on the CPU a loop takes a fifth of the time of a tree. On a GPU it would launch each step.
    return [jax.lax.platform_dependent(a, b, initial, cpu=_one_by_one, default=_all_at_once)]


def _tree(steps):
    """Roundings of a term that are neither products nor additions of a step."""
    return 2 * math.ceil(math.log2(steps + 1)) + 4


def _truth(a, b, initial):
    """A term is ``b[s]`` times all later ``a``. It passes through ``t - s`` products, in whatever order.

    It passes through one addition per step in a loop, and through ``2 log2 T`` in a tree. A kernel may do both, with a
    few steps for each thread. So it has at most the sum of all, ``k = 2 (t - s) + tree`` roundings.
    With H for the recurrence on absolute values, the sum of ``k`` times the absolute terms obeys::

        D[t] = |a[t]| (D[t-1] + 2 H[t-1]) + tree |b[t]|,   D[-1] = tree |initial|,

    and the error is at most ``u D[t] / (1 - K u)``, where K is the largest k. Each step may flush a product and a sum
    to zero, and also a product of a's that is then multiplied with a state of any size.
    """
    steps, tree = a.shape[0], _tree(a.shape[0])
    info, kind = np.finfo(b.dtype), wide(b[:0]).dtype
    unit, tiny = float(info.eps) / 2, float(info.tiny)
    unit /= 1 - (2 * steps + tree) * unit
    value, margin = np.empty(a.shape, kind), np.empty(a.shape, kind)
    h, total = wide(initial), np.abs(wide(initial))
    errors, flushed, largest = tree * total, np.zeros_like(total), total
    with np.errstate(all="ignore"):
        for t in range(steps):
            decay, drive = wide(a[t]), wide(b[t])
            h = decay * h + drive
            decay, drive = np.abs(decay), np.abs(drive)
            errors = decay * (errors + 2 * total) + tree * drive
            flushed = decay * flushed + 2 + largest
            total = decay * total + drive
            largest = np.maximum(largest, total)
            value[t], margin[t] = h, unit * errors + tiny * flushed
    return Truth((Expected(value, b.dtype, np.where(np.isfinite(margin), margin, 0)),))


def _shape(size):
    """About four times as many steps as channels."""
    channels = max(1, math.isqrt(size) // 2)
    return max(1, size // channels), channels


def _sample(dtype, size, seed):
    random = np.random.default_rng(seed)
    steps, channels = _shape(size)
    a = random.uniform(0.9, 1, (steps, channels)).astype(dtype)
    return a, values(dtype, steps * channels, random).reshape(steps, channels), values(dtype, channels, random)


def _edges(dtype):
    """Each vector as the drive of the first of two channels, and shapes that give threads no work or too much."""
    random = np.random.default_rng(9)
    cases = {}
    for name, vector in vectors(dtype).items():
        b = np.ones((vector.size, 2), dtype)
        b[:, 0] = vector
        cases[name] = (np.full(b.shape, 0.5, dtype), b, np.ones(2, dtype))
    for name, shape in {
        "no_channels": (7, 0),
        "one_step": (1, 9),
        "long_and_narrow": (600, 3),
        "short_and_wide": (3, 1031),
    }.items():
        a = random.uniform(-1, 1, shape).astype(dtype)
        cases[name] = (a, random.standard_normal(shape).astype(dtype), random.standard_normal(shape[1]).astype(dtype))
    ones = np.ones((37, 3), dtype)
    resets = np.where(np.arange(37)[:, None] % 5, ones, 0)
    nan_decay = ones.copy()
    nan_decay[20, 1] = np.nan
    nan_initial = np.array([1, np.nan, -np.inf], dtype)
    return cases | {
        "resets": (resets, ones, ones[0]),
        "sums": (ones, ones, ones[0]),
        "growth": (1.5 * ones, ones, ones[0]),
        "alternating": (-ones, ones, ones[0]),
        "nan_decay": (nan_decay, ones, ones[0]),
        "nan_initial": (ones / 2, ones, nan_initial),
        "zero_times_infinity": (resets, ones, np.array([np.inf, 1, -np.inf], dtype)),
    }


_SHAPES = "linear_recurrence: a and b must have one shape"
_REFUSED = value_errors(_SHAPES)


def _chain(a, *_):
    return 2 * a.shape[0] + _tree(a.shape[0])


OPERATOR = Operator(
    name="linear_recurrence",
    version=1,
    outputs=lambda a, b, initial: [jax.ShapeDtypeStruct(b.shape, b.dtype)],
    reference=_reference,
    truth=_truth,
    kernels={
        "numba": linear_recurrence,
        "numba_parallel": linear_recurrence_parallel,
        "numba_cuda": CudaKernel(linear_recurrence_cuda, _launch, select=_select),
        "warp": WarpCallable(linear_recurrence_warp, calls=3),
    },
    dtypes=("float32", "float64"),
    sample=_sample,
    domains={"a": Domain(least=-1, most=1)},  # products of more than that overflow, in another order elsewhere
    edges=_edges,
    errors=(
        ErrorCase(
            "fewer_steps",
            lambda: (np.zeros((4, 3), np.float32), np.zeros((5, 3), np.float32), np.zeros(3, np.float32)),
            # The reference is a loop and a tree; JAX 0.10 traces the loop first, JAX 0.11 the tree.
            {"jnp": Failure(ValueError, "leading axis sizes|same first dimension"), **_REFUSED},
        ),
        ErrorCase(
            "more_states",
            lambda: (np.zeros((4, 3), np.float32), np.zeros((4, 3), np.float32), np.zeros(2, np.float32)),
            {"jnp": Failure(TypeError, "incompatible shapes"), **_REFUSED},
        ),
    ),
    # A cotangent follows the same recurrence backwards. The cotangent of a is also multiplied by the state before.
    gradient=Gradient({0: lambda *inputs: 2 * _chain(*inputs) + 1, 1: _chain, 2: _chain}),
    bytes_read=total_bytes,
    bytes_written=lambda a, b, initial: total_bytes(b),
    flops=lambda a, b, initial: 2 * a.size,
    sizes=Sizes(quick=(2**20,), cuda_quick=(2**22,)),
)
