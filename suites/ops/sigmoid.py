"""sigmoid: ``out[i] = 1 / (1 + exp(-x[i]))``."""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
import numba
import numpy as np

from suites.accuracy import Truth, bounded, wide
from suites.backends import Backend, CudaKernel
from suites.cuda_kernels import device, kernel, load, quotient, store, tile, tiles, widened
from suites.edges import values, vectors
from suites.kernels import ONE_THREAD_BELOW
from suites.operator import Operator, total_bytes


@numba.njit(error_model="numpy")
def sigmoid(x, out):
    one = x.dtype.type(1)
    for i in range(out.size):
        out[i] = one / (one + math.exp(-x[i]))


@numba.njit(parallel=True, error_model="numpy")
def sigmoid_parallel(x, out):
    if out.size < ONE_THREAD_BELOW:
        sigmoid(x, out)
    else:
        one = x.dtype.type(1)
        for i in numba.prange(out.size):
            out[i] = one / (one + math.exp(-x[i]))


@device
def logistic(value, one):
    return quotient(one, one + math.exp(-value))


@kernel
def sigmoid_cuda(x, out):
    one = widened(x.dtype.type(1))
    i, step, full = tile(out.size)
    if full:
        a, b, c, d = load(x, i, step)
        store(out, i, step, (logistic(a, one), logistic(b, one), logistic(c, one), logistic(d, one)))
    else:
        while i < np.uint64(out.size):
            out[i] = logistic(widened(x[i]), one)
            i += step


def _truth(x):
    """The exponential e is off by four roundings (see exp_trace), the sum by one, the quotient by up to four (2 ulp).

    The relative error of e reaches the result with a factor of ``e / (1 + e)``, below one: nine roundings in all. Where
    e overflows, the result is zero instead of a number below the smallest normal one.
    """
    with np.errstate(over="ignore"):
        value = 1 / (1 + np.exp(-wide(x)))
    return Truth((bounded(value, x.dtype, condition=value, terms=9),))


OPERATOR = Operator(
    name="sigmoid",
    version=1,
    outputs=lambda x: [jax.ShapeDtypeStruct(x.shape, x.dtype)],
    reference=lambda x: [1 / (1 + jnp.exp(-x))],
    truth=_truth,
    kernels={
        Backend.NUMBA: sigmoid,
        Backend.NUMBA_PARALLEL: sigmoid_parallel,
        Backend.NUMBA_CUDA: CudaKernel(sigmoid_cuda, tiles),
    },
    dtypes=("float32", "float64", "float16"),
    sample=lambda dtype, size, seed: (4 * values(dtype, size, np.random.default_rng(seed)),),
    edges=lambda dtype: {name: (vector,) for name, vector in vectors(dtype).items()},
    bytes_read=total_bytes,
    bytes_written=total_bytes,
    flops=lambda x: 4 * x.size,
    elementwise=True,
)
