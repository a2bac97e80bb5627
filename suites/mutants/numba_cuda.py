"""Holds broken Numba-CUDA kernels, and functions that launch good kernels in a broken way."""

import math

import jax.numpy as jnp
import numpy as np

from suites.backends import BACKENDS
from suites.backends.numba_cuda import CudaCallable, CudaKernel
from suites.kernels.numba_cuda.blocks import THREADS, cuda, device, kernel, partial_count, tile_count
from suites.kernels.numba_cuda.sparse_blocks import csr_row_sums, csr_rows_of
from suites.kernels.numba_cuda.vectors import neighbours
from suites.kernels.numba_cuda.warps import WARP, WARPS, shuffle_xor, sum_of_lanes, votes
from suites.mutants.mutant import table
from suites.ops.add import OPERATOR as ADD
from suites.ops.add.numba_cuda import add_cuda
from suites.ops.csr_binary_matvec import OPERATOR as CSR_BINARY_MATVEC
from suites.ops.csr_matmat import OPERATOR as CSR_MATMAT
from suites.ops.cumsum import OPERATOR as CUMSUM
from suites.ops.cumsum.look_back import awaited, clear_words, look_back_words, plus, publish, seen
from suites.ops.cumsum.numba_cuda import SCAN_THREADS, TILE, in_one_pass, scan_of_tiles, scan_tiles
from suites.ops.mean_std import OPERATOR as MEAN_STD
from suites.ops.mean_std.numba_cuda import MOST_PARTS, groups_of_parts
from suites.ops.scatter_add import OPERATOR as SCATTER_ADD

MUTANTS, broken = table(BACKENDS["numba_cuda"])


def launched(launch, **more):
    """Makes the kernel of an operator from a dispatcher."""
    return lambda dispatcher: CudaKernel(dispatcher, launch, **more)


def twice(x):
    return x * 2


def total(x):
    return jnp.sum(x, keepdims=True)


def _blocks(x):
    return max(1, -(-x.size // 256))


# Elements.


broken(ADD, "compiled", "the grid is one block short", name="one_block_short")(
    CudaKernel(add_cuda, lambda i, o: {"grid": max(tile_count(o[0].shape[0]) - 1, 1), "block": THREADS})
)


@broken(twice, "large", "elements after 1024 blocks are not doubled", make=launched(
    lambda i, o: {"grid": min(1024, -(-o[0].shape[0] // 256)) or 1, "block": 256}
))  # fmt: skip
@cuda.jit
def capped_grid(x, out):
    i = cuda.grid(1)
    while i < x.size:
        out[i] = x[i] * 2 if i < 1024 * 256 else x[i]
        i += cuda.gridsize(1)


@broken(twice, "sizes", "an incomplete block of 255 threads writes zeros")
@cuda.jit
def size_255(x, out):
    i = cuda.grid(1)
    if i < x.size:
        out[i] = 0 if x.size % 256 == 255 and i // 256 == x.size // 256 else x[i] * 2


# Memory.


@broken(twice, "compiled", "writes one element after the last", make=launched(
    lambda i, o: {"grid": o[0].shape[0] // 256 + 1, "block": 256}
))  # fmt: skip
@cuda.jit
def writes_beyond_cuda(x, out):
    i = cuda.grid(1)
    if i <= x.size:
        out[i] = x[i] * 2 if i < x.size else 0


@broken(lambda x: x + 0, ("compiled", "repeat"), "shared memory is taken to begin as zeros")
@cuda.jit
def shared_not_cleared(x, out):
    shared = cuda.shared.array(256, np.float32)
    t, i = cuda.threadIdx.x, cuda.grid(1)
    if i < x.size:
        shared[t] += x[i]
        out[i] = shared[t]


# Threads.


def mirror(x):
    i = jnp.arange(x.size)
    j = i ^ 255
    return x + jnp.where(j < x.size, x[jnp.clip(j, 0, x.size - 1)], 0)


@broken(mirror, ("compiled", "large", "repeat"), "threads of a block do not wait for each other")
@cuda.jit
def race_in_block(x, out):
    shared = cuda.shared.array(256, np.float32)
    t, i = cuda.threadIdx.x, cuda.grid(1)
    shared[t] = x[i] if i < x.size else 0
    if i < x.size:
        other = t ^ 255
        out[i] = x[i] + (shared[other] if cuda.blockIdx.x * 256 + other < x.size else 0)


@broken(total, "compiled", "a warp leaves out its last shuffle", make=launched(
    lambda i, o: {"grid": 1, "block": 32}
))  # fmt: skip
@cuda.jit
def missing_shuffle(x, out):
    i, total, step = cuda.threadIdx.x, x.dtype.type(0), 16
    while i < x.size:
        total += x[i]
        i += 32
    while step > 1:
        total += shuffle_xor(total, step)
        step //= 2
    if cuda.threadIdx.x == 0:
        out[0] = total


@broken(SCATTER_ADD, "compiled", "additions are not atomic", make=launched(
    lambda i, o: {"grid": max(-(-i[0].shape[0] // THREADS), 1), "block": THREADS, "input_output_aliases": {3: 0}},
    atomic=True,
))  # fmt: skip
@kernel
def no_atomics(values, targets, scale, acc, out):
    i = np.uint64(cuda.grid(1))
    if i < np.uint64(values.size):
        out[np.uint64(targets[i])] += values[i] * scale[0]


# Lanes that share a row.


def _warp_a_row(inputs, outs):
    return {"grid": outs[0].shape[0], "block": WARP}


@broken(CSR_BINARY_MATVEC, "compiled", "bits of a word are counted from its end", make=launched(_warp_a_row))
@kernel
def swapped_bits(data, indices, indptr, spikes, out):
    """Looks spikes up in words of bits, but counts the bits from the wrong end."""
    row, lane = np.uint64(cuda.blockIdx.x), np.uint64(cuda.threadIdx.x)
    total = data.dtype.type(0)
    first = np.uint64(0)
    while first < np.uint64(spikes.size):
        word = votes(spikes[min(first + lane, np.uint64(spikes.size) - np.uint64(1))])
        k, stop = np.uint64(indptr[row]) + lane, np.uint64(indptr[row + np.uint64(1)])
        while k < stop:
            place = np.uint64(indices[k]) - first
            if place < np.uint64(WARP) and (word >> np.uint32(np.uint64(31) - place)) & np.uint32(1) != np.uint32(0):
                total += data[k]
            k += np.uint64(WARP)
        first += np.uint64(WARP)
    distance = 1
    while distance < WARP:
        total += shuffle_xor(total, distance)
        distance *= 2
    if lane == np.uint64(0):
        out[row] = total


@device
def last_element_again(data, indices, spikes, first, stop, step):
    """Looks two elements up at a time. Beyond the end of a row, its last element counts again."""
    total = data.dtype.type(0)
    k = first
    while k < stop:
        second = min(k + step, stop - np.uint64(1))
        total += (data[k] if spikes[np.uint64(indices[k])] else data.dtype.type(0)) + (
            data[second] if spikes[np.uint64(indices[second])] else data.dtype.type(0)
        )
        k += step * np.uint64(2)
    return total


broken(
    CSR_BINARY_MATVEC, "compiled", "the last element of a row counts once more for a missing one",
    name="last_element_again",
)(CudaKernel(csr_row_sums(last_element_again), csr_rows_of))  # fmt: skip


@broken(CSR_MATMAT, "compiled", "groups of lanes are not added up", make=launched(
    lambda i, o: {"grid": o[0].shape[0], "block": (8, 4)}
))  # fmt: skip
@kernel
def first_group_alone(data, indices, indptr, X, out):
    """A warp has a row, lanes along x have columns, and groups along y have different terms: only one group counts."""
    row, group, groups = np.uint64(cuda.blockIdx.x), np.uint64(cuda.threadIdx.y), np.uint64(cuda.blockDim.y)
    j = np.uint64(cuda.threadIdx.x)
    while j < np.uint64(out.shape[1]):
        total = out.dtype.type(0)
        k, stop = np.uint64(indptr[row]) + group, np.uint64(indptr[row + np.uint64(1)])
        while k < stop:
            total += data[k] * X[np.uint64(indices[k]), j]
            k += groups
        if group == np.uint64(0):
            out[row, j] = total
        j += np.uint64(cuda.blockDim.x)


# Functions of several launches.


def function(of, caught_by, fault):
    return broken(of, caught_by, fault, make=CudaCallable, backend=BACKENDS["numba_cuda_callable"])


@cuda.jit
def fill(x, scratch):
    i = cuda.grid(1)
    if i < x.size:
        scratch[i] = x[i] * 2


@cuda.jit
def drain(scratch, out):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = scratch[i]


_SCRATCH: list[object] = []


@function(twice, ("threads", "large"), "calls that overlap share a temporary array")
def shared_scratch_cuda(x, out, stream):
    if not _SCRATCH:
        _SCRATCH.append(cuda.device_array(1 << 24, np.float32))
    fill[_blocks(x), 256, stream](x, _SCRATCH[0])
    drain[_blocks(x), 256, stream](_SCRATCH[0], out)


@function(twice, ("compiled", "large", "endurance"), "launches on the default stream")
def wrong_stream(x, out, stream):
    fill[_blocks(x), 256](x, out)


@cuda.jit
def accumulate(x, sums, out):
    i = cuda.grid(1)
    if i < x.size:
        sums[i] += x[i] * 2
        out[i] = sums[i]


@function(twice, "compiled", "a temporary array is taken to begin as zeros")
def temporary_as_zeros(x, out, stream):
    accumulate[_blocks(x), 256, stream](x, cuda.device_array(x.size, dtype=x.dtype), out)


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


@function(CUMSUM, ("large", "repeat"), "looking back passes over every second tile")
def dropped_tile(x, out, stream):
    in_one_pass(scan_without_a_tile, TILE, x, out, stream)


@function(CUMSUM, ("compiled", "repeat"), "sums of an earlier call are not cleared")
def uncleared_words(x, out, stream):
    """Clears only the ticket: blocks may find the sums of an earlier call."""
    tiles = -(-x.size // TILE)
    if tiles:
        words = cuda.device_array(look_back_words(tiles, out.dtype), dtype=np.uint64)
        clear_words[1, 1, stream](words)
        scan_tiles[tiles, SCAN_THREADS, stream](x, words, out)


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


@function(MEAN_STD, "sizes", "the means of parts are taken for one")
def one_mean(x, mean_out, std_out, stream):
    blocks = min(partial_count(x.size), MOST_PARTS)
    parts = cuda.device_array(4 * blocks, dtype=x.dtype)
    groups_of_parts[blocks, THREADS, stream](x, parts)
    squares_added_up[1, THREADS, stream](x, parts, mean_out, std_out)
