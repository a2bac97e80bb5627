"""sum: ``out[0] = x[0] + x[1] + ...``."""

import jax
import jax.numpy as jnp
import numba
import numpy as np

import bridge
from suites import (
    CudaCallable,
    Gradient,
    Operator,
    Sizes,
    Truth,
    WarpCallable,
    blocked_terms,
    bounded,
    exact,
    partial_sums,
    quantum,
    total_bytes,
    values,
    vectors,
    wide,
)
from suites.backends import peers
from suites.backends.numba_cpu import BLOCK, ONE_THREAD_BELOW, block_count, block_sum, blocked_sum
from suites.backends.numba_cuda import THREADS, add_up_parts, add_up_sums, cuda, partial_count
from suites.backends.warp import PARTS_THREADS, blocks, part_count
from suites.backends.warp import add_up as add_up_warp
from suites.backends.warp import add_up_parts as add_up_parts_warp


@numba.njit
def total(x, out):
    out[0] = blocked_sum(x)


@numba.njit(parallel=True)
def total_parallel(x, out):
    if x.size < ONE_THREAD_BELOW:
        total(x, out)
    else:
        running = x.dtype.type(0)
        for block in numba.prange(block_count(x.size)):
            running += block_sum(x[block * BLOCK : (block + 1) * BLOCK])
        out[0] = running


def total_cuda(x, out, stream):
    """Two passes, because the bits of a sum by atomic additions would vary from call to call."""
    blocks = partial_count(x.size)
    if blocks == 1:
        add_up_sums[1, THREADS, stream](x, out)
    else:
        partials = cuda.device_array(blocks, dtype=x.dtype)
        add_up_parts[blocks, THREADS, stream](x, partials)
        add_up_sums[1, THREADS, stream](partials, out)


def total_warp(inputs, outs):
    """Two passes, so that the order of additions does not vary."""
    dtype, parts = str(inputs[0].dtype), part_count(inputs[0].shape[0])
    first = bridge.jax_kernel(add_up_warp(dtype), **blocks(parts), output_dims=parts)
    second = bridge.jax_kernel(add_up_parts_warp(dtype), **blocks(1, PARTS_THREADS), output_dims=1)
    return lambda x: second(*first(x))


def _truth(x):
    if x.dtype.kind != "f":
        return Truth((exact(x.sum(keepdims=True, dtype=x.dtype)),))  # integers wrap around
    with np.errstate(invalid="ignore"):
        value = wide(x).sum(keepdims=True)
    bound = {"condition": np.abs(wide(x)).sum(), "partial": partial_sums(x), "quantum": quantum(x)}
    return Truth((bounded(value, x.dtype, **bound, terms=blocked_terms(x.size), flushed=x.size + 1),))


OPERATOR = Operator(
    name="sum",
    version=1,
    outputs=lambda x: [jax.ShapeDtypeStruct((1,), x.dtype)],
    reference=lambda x: [jnp.sum(x, keepdims=True, dtype=x.dtype)],
    truth=_truth,
    kernels={
        "numba": total,
        "numba_parallel": total_parallel,
        "numba_cuda_callable": CudaCallable(total_cuda),
        "numba_cuda_replay": CudaCallable(total_cuda),
        "warp": WarpCallable(total_warp, calls=2),
    },
    peers=peers.SUM,
    dtypes=("float32", "float64", "int32", "int64"),
    sample=lambda dtype, size, seed: (values(dtype, size, np.random.default_rng(seed)),),
    edges=lambda dtype: {name: (vector,) for name, vector in vectors(dtype).items()},
    gradient=Gradient({0: 0}),
    bytes_read=total_bytes,
    bytes_written=lambda x: x.dtype.itemsize,
    flops=lambda x: x.size,
    sizes=Sizes(cuda_quick=(4096, 2**20, 2**24), quick_by_name=True),
)
