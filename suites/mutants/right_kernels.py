"""Correct kernels of many kinds, declared as briefly as their authors would."""

import math

import jax
import jax.numpy as jnp
import numba
import numpy as np
import warp as wp

from suites import Operator

OPERATORS: list[Operator] = []


def op(name, reference, kernel, backend="numba", **more):
    OPERATORS.append(Operator(name=name, reference=reference, kernels={backend: kernel}, **more))


@numba.njit(fastmath=True)
def fast_sum(x, out):
    total = x.dtype.type(0)
    for i in range(x.size):
        total += x[i]
    out[0] = total


op("fast_sum", lambda x: jnp.sum(x, keepdims=True), fast_sum, edges=lambda dtype: {})


@numba.njit
def bins(x, out):
    for i in range(x.size):
        out[i] = 3 if x[i] != x[i] else int(x[i] >= 0.1) + int(x[i] >= 0.3) + int(x[i] >= 0.7)


op("bins", lambda x: jnp.digitize(x, jnp.array([0.1, 0.3, 0.7], x.dtype)).astype(jnp.int32), bins)


@numba.njit
def fnv(x, out):
    digest = np.uint32(2166136261)
    for i in range(x.size):
        digest = np.uint32((digest ^ x[i]) * np.uint32(16777619))
        out[i] = digest


def fnv_reference(x):
    def step(digest, each):
        digest = (digest ^ each) * jnp.uint32(16777619)
        return digest, digest

    return jax.lax.scan(step, jnp.uint32(2166136261), x)[1]


op("fnv", fnv_reference, fnv, dtypes=("uint32",))


@numba.njit(parallel=True)
def parallel_sum(x, out):
    total = 0.0
    for i in numba.prange(x.size):
        total += x[i]
    out[0] = total


op("parallel_sum", lambda x: jnp.sum(x, keepdims=True), parallel_sum, "numba_parallel")


@numba.njit
def gather(x, index, out):
    for i in range(index.size):
        out[i] = x[index[i]]


def gather_sample(dtype, size, seed):
    r = np.random.default_rng(seed)
    return r.standard_normal(size).astype(dtype), r.integers(0, size, 2 * size).astype(np.int32)


op("gather", lambda x, index: x[index], gather, sample=gather_sample)


@numba.njit
def histogram(index, weights, out):
    for b in range(out.size):
        out[b] = 0
    for i in range(index.size):
        out[index[i]] += weights[i]


def histogram_sample(dtype, size, seed):
    r = np.random.default_rng(seed)
    return r.integers(0, 16, size).astype(np.int32), r.standard_normal(size).astype(dtype)


op(
    "histogram",
    lambda index, weights: jnp.zeros(16, weights.dtype).at[index].add(weights),
    histogram,
    sample=histogram_sample,
)


@numba.njit
def csr(data, indices, indptr, v, out):
    for row in range(out.size):
        total = data.dtype.type(0)
        for k in range(indptr[row], indptr[row + 1]):
            total += data[k] * v[indices[k]]
        out[row] = total


def csr_sample(dtype, size, seed):
    r = np.random.default_rng(seed)
    rows = max(1, size // 8)
    lengths = np.random.default_rng(1).multinomial(size, np.ones(rows) / rows)
    return (
        r.standard_normal(size).astype(dtype),
        r.integers(0, 50, size).astype(np.int32),
        np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32),
        r.standard_normal(50).astype(dtype),
    )


def csr_reference(data, indices, indptr, v):
    rows = jnp.searchsorted(indptr, jnp.arange(data.size), side="right") - 1
    return jnp.zeros(indptr.size - 1, data.dtype).at[rows].add(data * v[indices])


op("csr", csr_reference, csr, sample=csr_sample)


@numba.njit
def matmul(a, b, out):
    for i in range(a.shape[0]):
        for j in range(b.shape[1]):
            total = a.dtype.type(0)
            for k in range(a.shape[1]):
                total += a[i, k] * b[k, j]
            out[i, j] = total


def matmul_sample(dtype, size, seed):
    r = np.random.default_rng(seed)
    n = max(1, int(size**0.5))
    return r.standard_normal((n, n + 1)).astype(dtype), r.standard_normal((n + 1, 3)).astype(dtype)


op("matmul", lambda a, b: a @ b, matmul, sample=matmul_sample)


@numba.njit
def sorted_(x, out):
    out[:] = np.sort(x)


op("sorted", lambda x: jnp.sort(x), sorted_, edges=lambda dtype: {})


@numba.njit
def first_max(x, out):
    best = 0
    for i in range(x.size):
        if np.isnan(x[i]):
            best = i
            break
        if x[i] > x[best]:
            best = i
    out[0] = best


op("first_max", lambda x: jnp.argmax(x, keepdims=True).astype(jnp.int32), first_max)


@numba.njit
def threshold(x, out):
    for i in range(x.size):
        out[i] = 1 if x[i] * 2 + 1 > 0 else 0


op("threshold", lambda x: (x * 2 + 1 > 0).astype(jnp.int32), threshold)


@numba.njit(parallel=True)
def counted(x, out):
    count = 0
    for i in numba.prange(x.size):
        if x[i] > 0.5:
            count += 1
    out[()] = count


op("counted", lambda x: jnp.sum(x > 0.5, dtype=jnp.int32), counted, "numba_parallel")


@numba.njit
def invert(x, out):
    for i in range(x.size):
        out[i] = not x[i]


op("invert", lambda x: ~x, invert, dtypes=("bool",))


@numba.njit
def flip_bits(x, out):
    for i in range(x.size):
        out[i] = ~x[i]


op("flip_bits", lambda x: ~x, flip_bits, dtypes=("uint8", "int32", "int64", "uint32"))


@numba.njit
def gelu(x, out):
    for i in range(x.size):
        out[i] = 0.5 * x[i] * (1 + math.erf(x[i] / math.sqrt(2.0)))


op("gelu", lambda x: 0.5 * x * (1 + jax.scipy.special.erf(x / np.sqrt(2.0).astype(x.dtype))), gelu)


@numba.njit
def stencil(x, out):
    n = x.size
    for i in range(n):
        out[i] = x[(i - 1) % n] - 2 * x[i] + x[(i + 1) % n]


op("stencil", lambda x: jnp.roll(x, 1) - 2 * x + jnp.roll(x, -1), stencil)


@numba.njit
def product(x, y, out):
    for i in range(x.size):
        out[i] = x[i] * y[i]


op("complex_product", lambda x, y: x * y, product, dtypes=("complex64", "complex128"))


@numba.njit
def magnitude(x, out):
    for i in range(x.size):
        out[i] = abs(x[i])


op("complex_abs", lambda x: jnp.abs(x), magnitude, dtypes=("complex64", "complex128"))


@numba.njit
def decay(v, i_in, v_out, spike):
    for k in range(v.size):
        new = v[k] * v.dtype.type(0.9) + i_in[k]
        fired = new >= 1
        spike[k] = fired
        v_out[k] = 0 if fired else new


def decay_reference(v, i_in):
    new = v * 0.9 + i_in
    fired = new >= 1
    return jnp.where(fired, 0, new), fired


op("decay", decay_reference, decay)


@numba.njit
def mod(x, y, out):
    for i in range(x.size):
        out[i] = 0 if y[i] == 0 else x[i] % y[i]


op("mod", lambda x, y: jnp.where(y == 0, 0, x % jnp.where(y == 0, 1, y)), mod, dtypes=("int32",))


@numba.njit
def rounded(x, out):
    for i in range(x.size):
        out[i] = np.round(x[i])


op("rounded", lambda x: jnp.round(x), rounded)


@wp.kernel
def warp_saxpy(x: wp.array(dtype=wp.float32), y: wp.array(dtype=wp.float32), out: wp.array(dtype=wp.float32)):
    i = wp.tid()
    out[i] = 2.0 * x[i] + y[i]


op("warp_saxpy", lambda x, y: 2 * x + y, warp_saxpy, "warp", dtypes=("float32",))


@wp.kernel
def warp_half(x: wp.array(dtype=wp.float16), out: wp.array(dtype=wp.float16)):
    i = wp.tid()
    out[i] = x[i] * wp.float16(0.5)


op("warp_half", lambda x: x * jnp.float16(0.5), warp_half, "warp", dtypes=("float16",))


@numba.njit
def numba_half(x, out):
    total = np.float32(0)
    for i in range(x.size):
        total += x[i]
    out[0] = total / 2


op("numba_half", lambda x: jnp.sum(x, keepdims=True) / 2, numba_half, "numba", dtypes=("float16", "bfloat16"))
