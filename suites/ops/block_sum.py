"""block_sum: ``out[b]`` is the sum of 256 elements of x from ``x[256 * b]`` on; the last block may have fewer."""

import functools

import jax
import jax.numpy as jnp
import numba
import numpy as np

from suites import (
    CudaKernel,
    Gradient,
    Operator,
    Sizes,
    Truth,
    WarpKernel,
    bounded,
    exact,
    partial_sums,
    quantum,
    total_bytes,
    values,
    vectors,
    wide,
)
from suites.backends.numba_cpu import ONE_THREAD_BELOW
from suites.backends.numba_cpu import block_sum as sum_of
from suites.backends.numba_cuda import THREADS, cuda, kernel, sum_lanes
from suites.backends.warp import blocks, scalar, wp

BLOCK = 256
"""Elements of a block."""

_LANES = 32
_ROWS = THREADS // _LANES
_EACH = BLOCK // _LANES


@numba.njit
def block_sum(x, out):
    for block in range(out.size):
        out[block] = sum_of(x[block * BLOCK : (block + 1) * BLOCK])


@numba.njit(parallel=True)
def block_sum_parallel(x, out):
    if x.size < ONE_THREAD_BELOW:
        block_sum(x, out)
    else:
        for block in numba.prange(out.size):
            out[block] = sum_of(x[block * BLOCK : (block + 1) * BLOCK])


@kernel
def block_sum_cuda(x, out):
    """A warp adds up a block of elements: each lane loads eight, and shared memory adds up the lanes' sums."""
    shared = cuda.shared.array(THREADS, x.dtype)
    block = np.uint64(cuda.blockIdx.x) * np.uint64(_ROWS) + np.uint64(cuda.threadIdx.y)
    first = block * np.uint64(BLOCK) + np.uint64(cuda.threadIdx.x)
    size = np.uint64(x.size)
    total = x.dtype.type(0)
    if first + np.uint64(BLOCK - _LANES) < size:
        for k in range(_EACH):  # unrolled: eight loads under way
            total += x[first + np.uint64(k * _LANES)]
    else:
        while first < size and first < (block + np.uint64(1)) * np.uint64(BLOCK):
            total += x[first]
            first += np.uint64(_LANES)
    total = sum_lanes(shared, total, _LANES)
    if cuda.threadIdx.x == 0 and block < np.uint64(out.size):
        out[block] = total


def _launch(inputs, outs):
    return {"grid": -(-outs[0].shape[0] // _ROWS), "block": (_LANES, _ROWS)}


@functools.cache
def block_sum_warp(dtype):
    element = scalar(dtype)
    vector = wp.array(dtype=element)

    @wp.kernel(module="unique")
    def block_sum(x: vector, out: vector):
        block = wp.tid()
        total = wp.tile_zeros(shape=_LANES, dtype=element)
        for k in range(_EACH):
            total += wp.tile_load(x, shape=_LANES, offset=block * BLOCK + k * _LANES)
        wp.tile_store(out, wp.tile_sum(total), offset=block)

    return block_sum


def _launch_warp(inputs, outs):
    return blocks(outs[0].shape[0], _LANES) | {"output_dims": outs[0].shape}


def _blocks(size):
    return -(-size // BLOCK)


def _padded(x):
    return np.pad(x, (0, _blocks(x.size) * BLOCK - x.size)).reshape(-1, BLOCK)


def _reference(x):
    blocks = _blocks(x.size)
    return [jnp.sum(jnp.pad(x, (0, blocks * BLOCK - x.size)).reshape(blocks, BLOCK), axis=1, dtype=x.dtype)]


def _truth(x):
    if x.dtype.kind != "f":
        return Truth((exact(_padded(x).sum(axis=1, dtype=x.dtype)),))  # integers wrap around
    with np.errstate(invalid="ignore"):
        rows = wide(_padded(x))
        value, condition = rows.sum(axis=1), np.abs(rows).sum(axis=1)
    bound = {"condition": condition, "partial": partial_sums(rows, 1), "quantum": quantum(rows, axis=1)}
    return Truth((bounded(value, x.dtype, **bound, terms=BLOCK, flushed=BLOCK + 1),))


OPERATOR = Operator(
    name="block_sum",
    version=1,
    outputs=lambda x: [jax.ShapeDtypeStruct((_blocks(x.shape[0]),), x.dtype)],
    reference=_reference,
    truth=_truth,
    kernels={
        "numba": block_sum,
        "numba_parallel": block_sum_parallel,
        "numba_cuda": CudaKernel(block_sum_cuda, _launch),
        "warp": WarpKernel(block_sum_warp, _launch_warp),
    },
    dtypes=("float32", "float64", "int32"),
    sample=lambda dtype, size, seed: (values(dtype, size, np.random.default_rng(seed)),),
    edges=lambda dtype: {name: (vector,) for name, vector in vectors(dtype).items()},
    gradient=Gradient({0: 0}),
    bytes_read=total_bytes,
    bytes_written=lambda x: _blocks(x.size) * x.dtype.itemsize,
    flops=lambda x: x.size,
    sizes=Sizes(quick=(2**20,), cuda_quick=(2**24,), quick_by_name=True),
)
