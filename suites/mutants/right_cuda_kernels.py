"""Correct GPU kernels, declared as briefly as their authors would."""

import jax.numpy as jnp
import warp as wp
from numba import cuda, float32

from suites import CudaCallable, CudaKernel, Gradient, Operator

OPERATORS: list[Operator] = []


def op(name, reference, kernel, backend="numba_cuda", **more):
    OPERATORS.append(Operator(name=name, reference=reference, kernels={backend: kernel}, **more))


def twice(x):
    return x * 2


def total_of(x):
    return jnp.sum(x, keepdims=True)


@cuda.jit
def double(x, out):
    i = cuda.grid(1)
    if i < x.size:
        out[i] = x[i] * 2


op("double", twice, double)


@cuda.jit
def strided(x, out):
    i = cuda.grid(1)
    while i < x.size:
        out[i] = x[i] * 2
        i += cuda.gridsize(1)


op("strided", twice, CudaKernel(strided, lambda i, o: {"grid": 64, "block": 256}))


@cuda.jit
def block_total(x, out):
    shared = cuda.shared.array(256, float32)
    t = cuda.threadIdx.x
    s = x.dtype.type(0)
    i = t
    while i < x.size:
        s += x[i]
        i += 256
    shared[t] = s
    cuda.syncthreads()
    d = 128
    while d:
        if t < d:
            shared[t] += shared[t + d]
        cuda.syncthreads()
        d //= 2
    if t == 0:
        out[0] = shared[0]


op("block_total", total_of, CudaKernel(block_total, lambda i, o: {"grid": 1, "block": 256}), dtypes=("float32",))


@cuda.jit
def clear(out):
    out[0] = 0


@cuda.jit
def atomics(x, out):
    i = cuda.grid(1)
    if i < x.size:
        cuda.atomic.add(out, 0, x[i])


def atomic_total(x, out, stream):
    clear[1, 1, stream](out)
    atomics[max(1, -(-x.size // 256)), 256, stream](x, out)


op("atomic_total", total_of, CudaCallable(atomic_total), "numba_cuda_callable", dtypes=("float32",))


def with_temporary(x, out, stream):
    t = cuda.device_array(max(1, x.size), dtype=x.dtype)
    blocks = max(1, -(-x.size // 256))
    double[blocks, 256, stream](x, t[: x.size] if x.size else t)
    copy[blocks, 256, stream](t, out)


@cuda.jit
def copy(t, out):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = t[i]


op("with_temporary", twice, CudaCallable(with_temporary), "numba_cuda_callable", dtypes=("float32",))


@wp.kernel
def saxpy(x: wp.array(dtype=wp.float32), y: wp.array(dtype=wp.float32), out: wp.array(dtype=wp.float32)):
    i = wp.tid()
    out[i] = 2.0 * x[i] + y[i]


op("warp_saxpy", lambda x, y: 2 * x + y, saxpy, "warp", dtypes=("float32",), gradient=Gradient(inputs=(0, 1)))


@wp.kernel
def square(x: wp.array(dtype=wp.float32), out: wp.array(dtype=wp.float32)):
    i = wp.tid()
    out[i] = x[i] * x[i]


op("warp_square", lambda x: x * x, square, "warp", dtypes=("float32",), gradient=Gradient(inputs=(0,)))
op(
    "raw_exp",
    lambda x: jnp.exp(x),
    """
__global__ void e(const float* x, float* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = expf(x[i]);
}""",
    "cuda_raw",
    dtypes=("float32",),
)
op(
    "raw_saxpy",
    lambda x, y: 3 * x + y,
    """
__global__ void r(const float* x, const float* y, float* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = fmaf(3.0f, x[i], y[i]);
}""",
    "cuda_raw",
    dtypes=("float32",),
)


@cuda.jit
def int_double(x, out):
    i = cuda.grid(1)
    if i < x.size:
        out[i] = x[i] + x[i]


op("int_double", twice, int_double, dtypes=("int32", "int64", "uint8"))
