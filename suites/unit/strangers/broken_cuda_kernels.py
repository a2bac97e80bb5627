"""Wrong GPU kernels of many kinds, declared as briefly as their authors would."""

import jax.numpy as jnp
import numpy as np
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
def capped(x, out):
    i = cuda.grid(1)
    while i < x.size:
        out[i] = x[i] * 2 if i < 1024 * 256 else x[i]
        i += cuda.gridsize(1)


op(
    "capped_grid",
    twice,
    CudaKernel(capped, lambda i, o: {"grid": min(1024, -(-o[0].shape[0] // 256)) or 1, "block": 256}),
)


@cuda.jit
def ahead(x, out):
    i = cuda.grid(1)
    if i < x.size:
        nxt = x[i + 1]
        out[i] = x[i] * 2 if nxt != 123.456 else 0


op("looks_ahead", twice, ahead)


@cuda.jit
def back(x, out):
    i = cuda.grid(1)
    if i < x.size:
        before = x[np.int64(i) - np.int64(1)] if i else x[0]
        out[i] = x[i] * 2 if before != 123.456 else 0


op("right_twin_looks_back", twice, back)


@cuda.jit
def beyond(x, out):
    i = cuda.grid(1)
    if i <= x.size:
        out[i] = x[i] * 2 if i < x.size else 0


op("writes_beyond", twice, CudaKernel(beyond, lambda i, o: {"grid": o[0].shape[0] // 256 + 1, "block": 256}))


@cuda.jit
def race(x, out):
    shared = cuda.shared.array(256, float32)
    t = cuda.threadIdx.x
    i = cuda.grid(1)
    shared[t] = x[i] if i < x.size else 0
    # no syncthreads
    if i < x.size:
        j = t ^ 255
        other = shared[j] if cuda.blockIdx.x * 256 + j < x.size else 0
        out[i] = x[i] + other


def mirror(x):
    i = jnp.arange(x.size)
    j = i ^ 255
    return x + jnp.where(j < x.size, x[jnp.clip(j, 0, x.size - 1)], 0)


op("race_in_block", mirror, race, dtypes=("float32",))


@cuda.jit
def plain_add(x, out):
    i = cuda.grid(1)
    if i == 0:
        out[0] = 0
    if i < x.size:
        out[0] += x[i]


op("plain_add", total_of, plain_add)


@cuda.jit
def uninitialised(x, out):
    shared = cuda.shared.array(256, float32)
    t = cuda.threadIdx.x
    i = cuda.grid(1)
    if i < x.size:
        shared[t] += x[i]
    if i < x.size:
        out[i] = shared[t]


op("shared_not_cleared", lambda x: x + 0, uninitialised, dtypes=("float32",))


@cuda.jit
def partial_block(x, out):
    i = cuda.grid(1)
    if (cuda.blockIdx.x + 1) * cuda.blockDim.x <= x.size:
        out[i] = x[i] * 2
    elif i < x.size:
        out[i] = x[i] + x[i] if x.size % 256 != 255 else 0


op("size_255", twice, partial_block)


@cuda.jit
def warp_sum(x, out):
    t = cuda.threadIdx.x
    s = x.dtype.type(0)
    i = t
    while i < x.size:
        s += x[i]
        i += 32
    d = 16
    while d > 1:  # forgets the last step
        s += cuda.shfl_down_sync(0xFFFFFFFF, s, d)
        d //= 2
    if t == 0:
        out[0] = s


op("warp_sum_short", total_of, CudaKernel(warp_sum, lambda i, o: {"grid": 1, "block": 32}), dtypes=("float32",))

SCRATCH: dict[str, object] = {}


def scratch():
    if "a" not in SCRATCH:
        SCRATCH["a"] = cuda.device_array(1 << 24, np.float32)
    return SCRATCH["a"]


@cuda.jit
def fill(x, s):
    i = cuda.grid(1)
    if i < x.size:
        s[i] = x[i] * 2


@cuda.jit
def drain(s, out):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = s[i]


def shared_scratch(x, out, stream):
    s = scratch()
    blocks = max(1, -(-x.size // 256))
    fill[blocks, 256, stream](x, s)
    drain[blocks, 256, stream](s, out)


op("shared_scratch", twice, CudaCallable(shared_scratch), "numba_cuda_callable", dtypes=("float32",))


def wrong_stream(x, out, stream):
    blocks = max(1, -(-x.size // 256))
    fill[blocks, 256](x, out)


op("default_stream", twice, CudaCallable(wrong_stream), "numba_cuda_callable", dtypes=("float32",))


def temp_zero(x, out, stream):
    t = cuda.device_array(x.size, dtype=x.dtype)
    blocks = max(1, -(-x.size // 256))
    accumulate[blocks, 256, stream](x, t, out)


@cuda.jit
def accumulate(x, t, out):
    i = cuda.grid(1)
    if i < x.size:
        t[i] += x[i] * 2
        out[i] = t[i]


op("temporary_as_zeros", twice, CudaCallable(temp_zero), "numba_cuda_callable", dtypes=("float32",))


@wp.kernel
def atomic_lost(x: wp.array(dtype=wp.float32), out: wp.array(dtype=wp.float32)):
    i = wp.tid()
    out[i] = x[i] * 2.0
    if i == 4097:
        out[i] = x[i]


op("warp_4097", twice, atomic_lost, "warp", dtypes=("float32",))


@wp.func
def sq(x: float):
    return x * x


@wp.func_grad(sq)
def adj_sq(x: float, adj_ret: float):
    if x > 5.0:
        wp.adjoint[x] += adj_ret
    else:
        wp.adjoint[x] += 2.0 * x * adj_ret


@wp.kernel
def adj5(x: wp.array(dtype=wp.float32), out: wp.array(dtype=wp.float32)):
    i = wp.tid()
    out[i] = sq(x[i])


op("warp_adjoint_5", lambda x: x * x, adj5, "warp", dtypes=("float32",), gradient=Gradient({0: 3}))

op(
    "raw_int_tail",
    twice,
    """
__global__ void twice(const float* x, float* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = (n % 1024 == 0 && i == n - 1) ? x[i] : 2 * x[i];
}""",
    "cuda_raw",
    dtypes=("float32",),
)
op(
    "raw_fast_exp",
    lambda x: jnp.exp(x),
    """
__global__ void e(const float* x, float* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = __expf(x[i]);
}""",
    "cuda_raw",
    dtypes=("float32",),
)
op(
    "raw_nan_lost",
    lambda x: jnp.maximum(x, 0),
    """
__global__ void r(const float* x, float* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = fmaxf(x[i], 0.0f);
}""",
    "cuda_raw",
    dtypes=("float32",),
)
op(
    "raw_half_precision",
    lambda x: x + 0,
    """
__global__ void h(const float* x, float* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = __uint_as_float(__float_as_uint(x[i]) & 0xffffe000u);
}""",
    "cuda_raw",
    dtypes=("float32",),
)
