"""Holds broken Numba-CUDA kernels, and functions that launch good kernels in a broken way."""

import math

import numpy as np

from suites.backends.backend import Backend
from suites.backends.numba_cuda import (
    NEIGHBOURS,
    THREADS,
    WARP,
    WARPS,
    CudaCallable,
    CudaKernel,
    add_up_parts,
    add_up_sums,
    aligned,
    cuda,
    device,
    kernel,
    neighbour_tile,
    neighbour_tiles,
    neighbours,
    partial_count,
    place_in_block,
    rows_of,
    shuffle_xor,
    store_neighbours,
    strided_sum,
    sum_lanes,
    sum_of_lanes,
    sum_of_share,
    tile_count,
)
from suites.backends.numba_cuda_look_back import (
    awaited,
    clear_words,
    look_back_words,
    plus,
    publish,
    seen,
    sum_before,
)
from suites.backends.numba_cuda_shared import KEPT_ALIGNMENT, begin_copy, kept_neighbours
from suites.mutants.mutant import mutant
from suites.ops.abs_two_pass import OPERATOR as ABS_TWO_PASS
from suites.ops.abs_two_pass import square, square_root
from suites.ops.add import OPERATOR as ADD
from suites.ops.add import add_cuda
from suites.ops.block_sum import BLOCK
from suites.ops.block_sum import OPERATOR as BLOCK_SUM
from suites.ops.cumsum import LARGE_TILE, SCAN_THREADS, TILE, in_one_pass, scan_of_tiles, scan_tiles
from suites.ops.cumsum import OPERATOR as CUMSUM
from suites.ops.exp_decay import OPERATOR as EXP_DECAY
from suites.ops.linear_recurrence import OPERATOR as LINEAR_RECURRENCE
from suites.ops.linear_recurrence import linear_recurrence_in_vectors
from suites.ops.matvec import OPERATOR as MATVEC
from suites.ops.matvec import matvec_kept, matvec_long_rows
from suites.ops.max import OPERATOR as MAX
from suites.ops.mean_std import MOST_PARTS, groups_of_parts
from suites.ops.mean_std import OPERATOR as MEAN_STD
from suites.ops.relu import OPERATOR as RELU
from suites.ops.scatter_add import OPERATOR as SCATTER_ADD
from suites.ops.softmax import FEW, softmax_cuda, softmax_kept
from suites.ops.softmax import OPERATOR as SOFTMAX
from suites.ops.spike_reset import OPERATOR as SPIKE_RESET
from suites.ops.spike_reset import detect, reset
from suites.ops.sum import OPERATOR as SUM

_LANES = 32

KEPT_OF_BLOCK = THREADS * NEIGHBOURS


def _blocks_of_sums(inputs, outs):
    return {"grid": outs[0].shape[0], "block": THREADS}


@kernel
def missing_barrier(x, out):
    """A block for each block of elements. Its threads do not wait for each other before they add up."""
    shared = cuda.shared.array(THREADS, x.dtype)
    lane = np.uint64(cuda.threadIdx.x)
    i = np.uint64(cuda.blockIdx.x) * np.uint64(BLOCK) + lane
    shared[lane] = x[i] if i < np.uint64(x.size) else x.dtype.type(0)
    width = np.uint64(THREADS // 2)
    while width > np.uint64(0):
        if lane < width:
            shared[lane] += shared[lane + width]
        width >>= np.uint64(1)
    if lane == np.uint64(0):
        out[cuda.blockIdx.x] = shared[0]


@kernel
def stale_shared_memory(x, out):
    """Threads beyond the end of x leave old values in shared memory."""
    shared = cuda.shared.array(THREADS, x.dtype)
    lane = np.uint64(cuda.threadIdx.x)
    i = np.uint64(cuda.blockIdx.x) * np.uint64(BLOCK) + lane
    if i < np.uint64(x.size):
        shared[lane] = x[i]
    width = np.uint64(THREADS // 2)
    while width > np.uint64(0):
        cuda.syncthreads()
        if lane < width:
            shared[lane] += shared[lane + width]
        width >>= np.uint64(1)
    if lane == np.uint64(0):
        out[cuda.blockIdx.x] = shared[0]


@kernel
def past_the_end(x, out):
    """Adds up the memory after x if the last block of elements is not full."""
    shared = cuda.shared.array(THREADS, x.dtype)
    i = np.uint64(cuda.blockIdx.x) * np.uint64(BLOCK) + np.uint64(cuda.threadIdx.x)
    total = sum_lanes(shared, x[i], THREADS)
    if cuda.threadIdx.x == 0:
        out[cuda.blockIdx.x] = total


@kernel
def one_too_many(x, out):
    """The last thread that writes is one too far."""
    i = cuda.grid(1)
    if i < x.size:
        out[i] = max(x[i], x.dtype.type(0)) if x[i] == x[i] else x[i]
    elif i == x.size:
        out[i] = x.dtype.type(0)


def _one_thread_more(inputs, outs):
    return {"grid": outs[0].shape[0] // THREADS + 1, "block": THREADS}


@kernel
def half_of_the_lanes(A, x, out):
    """A warp for each row. It adds up only 16 of its 32 lanes."""
    row, lane = np.uint64(cuda.blockIdx.x), np.uint64(cuda.threadIdx.x)
    total = out.dtype.type(0)
    j = lane
    while j < np.uint64(x.size):
        total += A[row, j] * x[j]
        j += np.uint64(_LANES)
    offset = _LANES // 4
    while offset > 0:
        total += cuda.shfl_down_sync(0xFFFFFFFF, total, offset)
        offset //= 2
    if lane == np.uint64(0):
        out[row] = total


@kernel
def swapped_place(A, x, out):
    """Mistakes rows for lanes and lanes for rows in shared memory."""
    shared = cuda.shared.array(THREADS, out.dtype)
    lanes, height = np.uint64(cuda.blockDim.x), np.uint64(cuda.blockDim.y)
    lane, own = np.uint64(cuda.threadIdx.x), np.uint64(cuda.threadIdx.y)
    row = np.uint64(cuda.blockIdx.x) * height + own
    total = out.dtype.type(0)
    if row < np.uint64(out.size):
        j = lane
        while j < np.uint64(x.size):
            total += A[row, j] * x[j]
            j += lanes
    shared[lane * height + own] = total
    cuda.syncthreads()
    if lane == np.uint64(0) and row < np.uint64(out.size):
        total = out.dtype.type(0)
        for k in range(lanes):
            total += shared[own * lanes + np.uint64(k)]
        out[row] = total


@kernel
def shared_places(x, out):
    """Has shared memory for THREADS elements, but twice as many threads."""
    shared = cuda.shared.array(THREADS, x.dtype)
    place = np.uint64(cuda.threadIdx.x) % np.uint64(THREADS)
    i = np.uint64(cuda.blockIdx.x) * np.uint64(2 * THREADS) + np.uint64(cuda.threadIdx.x)
    if i < np.uint64(x.size):
        shared[place] = x[i]
    cuda.syncthreads()
    if i < np.uint64(x.size):
        value = shared[place]
        zero = x.dtype.type(0)
        out[i] = zero if value <= zero else value


def _launch_twice_the_threads(inputs, outs):
    return {"grid": -(-outs[0].shape[0] // (2 * THREADS)), "block": 2 * THREADS}


def _one_block_short(inputs, outs):
    return {"grid": max(tile_count(outs[0].shape[0]) - 1, 1), "block": THREADS}


@kernel
def no_stride(x, decay, out):
    """One element for each thread, in a grid that does not grow with x."""
    i = np.uint64(cuda.grid(1))
    if i < np.uint64(out.size):
        out[i] = x[i] * math.exp(-decay[0])


def _fixed_grid(inputs, outs):
    return {"grid": 64, "block": THREADS}


@kernel
def no_atomics(values, targets, scale, acc, out):
    i = np.uint64(cuda.grid(1))
    if i < np.uint64(values.size):
        out[np.uint64(targets[i])] += values[i] * scale[0]


def _launch_in_place(inputs, outs):
    return {"grid": max(-(-inputs[0].shape[0] // THREADS), 1), "block": THREADS, "input_output_aliases": {3: 0}}


@kernel
def no_zeros(x, out):
    """Adds to an output that was never set to zero."""
    shared = cuda.shared.array(THREADS, x.dtype)
    total = sum_lanes(shared, strided_sum(x, cuda.grid(1), cuda.gridsize(1)), THREADS)
    if cuda.threadIdx.x == 0:
        cuda.atomic.add(out, 0, total)


def _launch_partials(inputs, outs):
    return {"grid": partial_count(inputs[0].shape[0]), "block": THREADS}


def other_stream(x, out, stream):
    """Launches the second kernel on the default stream: it does not wait for the first one, nor XLA for it."""
    if x.size:
        blocks = tile_count(x.size)
        squares = cuda.device_array(x.size, dtype=x.dtype)
        square[blocks, THREADS, stream](x, squares)
        square_root[blocks, THREADS, 0](squares, out)


def unwritten_partials(x, out, stream):
    """Adds up more partial sums in the second pass than the first pass had blocks."""
    blocks = partial_count(x.size)
    partials = cuda.device_array(blocks, dtype=x.dtype)
    add_up_parts[max(blocks // 2, 1), THREADS, stream](x, partials)
    add_up_sums[1, THREADS, stream](partials, out)


def reset_first(V, V_th, V_rest, spikes, V_out, stream):
    """Launches the kernels in the wrong order."""
    if V.size:
        blocks = tile_count(V.size)
        reset[blocks, THREADS, stream](V, spikes, V_rest, V_out)
        detect[blocks, THREADS, stream](V, V_th, spikes)


@kernel
def ignored_nan(x, out):
    """Runs in one block. No comparison finds that NaN is larger."""
    shared = cuda.shared.array(THREADS, x.dtype)
    lane, size = np.uint64(cuda.threadIdx.x), np.uint64(x.size)
    best = x[0]
    i = lane
    while i < size:
        best = x[i] if x[i] > best else best
        i += np.uint64(THREADS)
    shared[lane] = best
    width = np.uint64(THREADS // 2)
    while width > np.uint64(0):
        cuda.syncthreads()
        if lane < width and shared[lane + width] > shared[lane]:
            shared[lane] = shared[lane + width]
        width >>= np.uint64(1)
    if lane == np.uint64(0):
        out[0] = shared[0]


def nan_ignored(x, out, stream):
    ignored_nan[1, THREADS, stream](x, out)


@kernel
def add_up_without_tail(x, sums):
    """Takes whole vectors only."""
    shared = cuda.shared.array(WARPS, x.dtype)
    total, i = x.dtype.type(0), np.uint64(cuda.grid(1))
    while i < np.uint64(x.size) // np.uint64(NEIGHBOURS):
        v = neighbours(x, i * np.uint64(NEIGHBOURS))
        total += (v[0] + v[1]) + (v[2] + v[3])
        i += np.uint64(cuda.gridsize(1))
    total = sum_of_lanes(shared, total, THREADS)
    if cuda.threadIdx.x == 0:
        sums[cuda.blockIdx.x] = total


def skipped_tail(x, out, stream):
    """Leaves out the elements that fill no vector."""
    add_up_without_tail[1, THREADS, stream](x, out)


@kernel
def add_up_without_last_shuffle(x, sums):
    """The last shuffle of each warp is missing: half of its lanes do not count."""
    shared = cuda.shared.array(WARPS, x.dtype)
    total, reach = sum_of_share(x, cuda.grid(1), cuda.gridsize(1)), WARP // 2
    while reach > 1:
        total += shuffle_xor(total, reach)
        reach //= 2
    place = place_in_block()
    if place % np.uint64(WARP) == np.uint64(0):
        shared[place // np.uint64(WARP)] = total
    cuda.syncthreads()
    if place == np.uint64(0):
        for warp in range(1, THREADS // WARP):
            total += shared[warp]
        sums[cuda.blockIdx.x] = total


def missing_shuffle(x, out, stream):
    add_up_without_last_shuffle[1, THREADS, stream](x, out)


@device
def without_nearest_tile(words, tile, tiles, total, nothing):
    """Looks back in a chain, and passes over the nearest tile unless it is the first."""
    before = nothing
    if tile > np.uint64(0):
        earlier = tile - np.uint64(1)
        before = awaited(words, earlier, nothing, seen(words, earlier, nothing))
    if cuda.laneid == 0:
        publish(words, tile, before if tile % np.uint64(2) == np.uint64(1) else plus(before, total))
    return before


scan_without_a_tile = scan_of_tiles(without_nearest_tile, TILE)


def dropped_tile(x, out, stream):
    """Each second tile does not count for the tiles after it."""
    in_one_pass(scan_without_a_tile, TILE, x, out, stream)


@device
def without_earlier_groups(words, tile, tiles, total, nothing):
    """Looks back no further than to the begin of its group of tiles."""
    found = sum_before(words, tile, tiles, total, nothing)
    group = tile // np.uint64(WARP)
    if group > np.uint64(0):
        earlier = np.uint64(tiles) + group - np.uint64(1)
        found = plus(found, -awaited(words, earlier, nothing, seen(words, earlier, nothing)))
    return found


scan_without_a_group = scan_of_tiles(without_earlier_groups, TILE)


def dropped_group(x, out, stream):
    """The group of tiles before a tile's own group does not count."""
    in_one_pass(scan_without_a_group, TILE, x, out, stream)


def uncleared_words(x, out, stream):
    """Clears only the ticket: blocks may find the sums of an earlier call."""
    tiles = -(-x.size // TILE)
    if tiles:
        words = cuda.device_array(look_back_words(tiles, out.dtype), dtype=np.uint64)
        clear_words[1, 1, stream](words)
        scan_tiles[tiles, SCAN_THREADS, stream](x, words, out)


def half_tiles(x, out, stream):
    """Blocks take four rows each, of tiles of eight."""
    in_one_pass(scan_tiles, LARGE_TILE, x, out, stream)


@kernel
def unawaited_copies(x, out):
    """Reads shared memory before what was to be copied there has come."""
    kept = cuda.shared.array(KEPT_OF_BLOCK, x.dtype, KEPT_ALIGNMENT)
    i, stop, full = neighbour_tile(out.size)
    zero = x.dtype.type(0)
    if full and aligned(x) and aligned(out):
        place = np.uint64(cuda.threadIdx.x) * np.uint64(NEIGHBOURS)
        begin_copy(kept, place, x, i)
        a, b, c, d = kept_neighbours(kept, place)
        store_neighbours(
            out,
            i,
            (
                zero if a <= zero else a,
                zero if b <= zero else b,
                zero if c <= zero else c,
                zero if d <= zero else d,
            ),
        )
    else:
        while i < stop:
            value = x[i]
            out[i] = zero if value <= zero else value
            i += np.uint64(1)


def _half_of_the_segments(inputs, outs):
    """Half of the threads along the steps, where the kernel has a number of them."""
    kernel = LINEAR_RECURRENCE.kernels[Backend.NUMBA_CUDA]
    launch = kernel.launch(inputs, outs)
    if kernel.kernel_of(inputs, outs) is not linear_recurrence_in_vectors:
        return launch
    return launch | {"block": (launch["block"][0], launch["block"][1] // 2)}


def _half_of_a_row(inputs, outs):
    """The threads of a row of whole vectors, and how many vectors each must keep to have half of them."""
    columns, lanes, each = inputs[0].shape[1], 1, 1
    while lanes < WARP and 2 * lanes * NEIGHBOURS < columns:
        lanes *= 2
    while 2 * lanes * each * NEIGHBOURS < columns:
        each *= 2
    return lanes, each


def _softmax_half_rows(inputs, outs):
    return softmax_kept(*_half_of_a_row(inputs, outs), False) if _is_in_vectors(inputs) else softmax_cuda


def _matvec_half_rows(inputs, outs):
    return matvec_kept(*_half_of_a_row(inputs, outs), False) if _is_in_vectors(inputs) else matvec_long_rows


def _is_in_vectors(inputs):
    return inputs[0].shape[1] % NEIGHBOURS == 0


def _launch_half_rows(inputs, outs):
    lanes, _ = _half_of_a_row(inputs, outs)
    height = FEW // lanes
    return {"grid": -(-inputs[0].shape[0] // height), "block": (lanes, height)}


@kernel
def squares_added_up(x, parts, mean_out, std_out):
    """Adds up the squared distances from the mean of each part, as if all parts had one mean."""
    shared = cuda.shared.array(WARPS, x.dtype)
    total = squares = x.dtype.type(0)
    i, size, step = np.uint64(cuda.threadIdx.x) * np.uint64(4), np.uint64(parts.size), np.uint64(4 * THREADS)
    while i < size:
        _, _, of_part, part = neighbours(parts, i)
        total, squares = total + part, squares + of_part
        i += step
    total = sum_of_lanes(shared, total, THREADS)
    squares = sum_of_lanes(shared, squares, THREADS)
    if cuda.threadIdx.x == 0:
        size_of_x = x.dtype.type(x.size)
        mean_out[0] = total / size_of_x
        std_out[0] = math.sqrt(squares / size_of_x)


def one_mean(x, mean_out, std_out, stream):
    blocks = min(partial_count(x.size), MOST_PARTS)
    parts = cuda.device_array(4 * blocks, dtype=x.dtype)
    groups_of_parts[blocks, THREADS, stream](x, parts)
    squares_added_up[1, THREADS, stream](x, parts, mean_out, std_out)


def _cuda(of, name, dispatcher, launch, fault, atomic=False, select=None):
    """A mutant in one dtype only, which is enough to catch it."""
    kernel = CudaKernel(dispatcher, launch, atomic, select=select)
    return mutant(of, name, Backend.NUMBA_CUDA, kernel, fault, dtypes=("float32",), gradient=None)


def _selected(of, name, select, fault):
    """A mutant of the kernels that are made for rows of one length."""
    kernel = CudaKernel(select([np.zeros((1, 1))] * 2, []), _launch_half_rows, select=select)
    return mutant(of, name, Backend.NUMBA_CUDA, kernel, fault, dtypes=("float32",), gradient=None)


def _callable(of, name, function, fault):
    return mutant(of, name, Backend.NUMBA_CUDA_CALLABLE, CudaCallable(function), fault, dtypes=("float32",))


def _rows(inputs, outs):
    return rows_of(*inputs[0].shape)


def _warp_a_row(inputs, outs):
    return {"grid": outs[0].shape[0], "block": _LANES}


MUTANTS = (
    _cuda(BLOCK_SUM, "missing_barrier", missing_barrier, _blocks_of_sums, "threads do not wait for shared memory"),
    _cuda(BLOCK_SUM, "stale_shared_memory", stale_shared_memory, _blocks_of_sums, "shared memory is not initialised"),
    _cuda(BLOCK_SUM, "past_the_end", past_the_end, _blocks_of_sums, "the last block reads past the end"),
    _cuda(MATVEC, "half_of_the_lanes", half_of_the_lanes, _warp_a_row, "half of a warp is left out of the sum"),
    _cuda(MATVEC, "swapped_place", swapped_place, _rows, "rows and columns of shared memory are swapped"),
    _cuda(
        RELU, "shared_places", shared_places, _launch_twice_the_threads, "two threads share a place in shared memory"
    ),
    _cuda(RELU, "one_too_many", one_too_many, _one_thread_more, "writes one element after the end"),
    _cuda(RELU, "unawaited_copies", unawaited_copies, neighbour_tiles, "copies to shared memory are not awaited"),
    _cuda(
        LINEAR_RECURRENCE,
        "half_of_the_segments",
        linear_recurrence_in_vectors,
        _half_of_the_segments,
        "half of the segments that a round combines are missing",
        select=LINEAR_RECURRENCE.kernels[Backend.NUMBA_CUDA].select,
    ),
    _cuda(ADD, "one_block_short", add_cuda, _one_block_short, "the grid is one block short"),
    _cuda(EXP_DECAY, "no_stride", no_stride, _fixed_grid, "a fixed grid without a loop over what it does not reach"),
    _cuda(SCATTER_ADD, "no_atomics", no_atomics, _launch_in_place, "additions are not atomic", atomic=True),
    _cuda(SUM, "no_zeros", no_zeros, _launch_partials, "adds to an output that nothing has set to zero", atomic=True),
    _callable(SUM, "skipped_tail", skipped_tail, "elements that fill no vector are left out"),
    _callable(SUM, "missing_shuffle", missing_shuffle, "a warp leaves out its last shuffle"),
    _callable(CUMSUM, "dropped_tile", dropped_tile, "looking back passes over every second tile"),
    _callable(CUMSUM, "dropped_group", dropped_group, "looking back passes over the group of tiles before"),
    _callable(CUMSUM, "uncleared_words", uncleared_words, "sums of an earlier call are not cleared"),
    _callable(CUMSUM, "half_tiles", half_tiles, "half of each large tile is left out"),
    _callable(MEAN_STD, "one_mean", one_mean, "the means of parts are taken for one"),
    _selected(SOFTMAX, "half_of_the_row", _softmax_half_rows, "threads keep half of a row"),
    _selected(MATVEC, "half_of_the_row", _matvec_half_rows, "threads load half of a row"),
    _callable(ABS_TWO_PASS, "other_stream", other_stream, "the second kernel is not launched on XLA's stream"),
    _callable(SUM, "unwritten_partials", unwritten_partials, "half of the partial sums are never written"),
    _callable(SPIKE_RESET, "reset_first", reset_first, "two kernels are launched in the wrong order"),
    _callable(MAX, "nan_ignored", nan_ignored, "NaN is passed over"),
)
