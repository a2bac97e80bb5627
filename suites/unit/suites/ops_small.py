"""Operators as short as they can be, of every kind that the defaults are there for."""

import typing

import jax
import jax.numpy as jnp
import numba
import numpy as np
import warp as wp

from suites import Backend, Operator


@numba.njit
def cube(x, out):
    for i in range(x.size):
        out[i] = x[i] * x[i] * x[i]


@numba.njit
def gather(indices, x, out):
    for i in range(out.size):
        out[i] = x[indices[i]]


@wp.kernel
def gather_warp(indices: wp.array(dtype=wp.int32), x: wp.array(dtype=wp.float32), out: wp.array(dtype=wp.float32)):
    i = wp.tid()
    out[i] = x[indices[i]]


def _indices_and_vector(dtype, size, seed):
    random = np.random.default_rng(seed)
    return random.integers(0, size // 2 + 1, size), random.standard_normal(size // 2 + 1).astype(dtype)


@numba.njit
def positive(x, out):
    for i in range(x.size):
        out[i] = x[i] > 0


@numba.njit
def exclusive_or(a, b, out):
    for i in range(a.size):
        out[i] = a[i] ^ b[i]


@numba.njit
def sine_cosine(x, sine, cosine):
    for i in range(x.size):
        sine[i], cosine[i] = np.sin(x[i]), np.cos(x[i])


@numba.njit
def total(x, out):
    out[()] = x.sum()


@numba.njit
def scale(x, factor, out):
    for i in range(x.size):
        out[i] = x[i] * factor[0]


@numba.njit
def matmul(a, b, out):
    for i in range(a.shape[0]):
        for j in range(b.shape[1]):
            element = out.dtype.type(0)
            for k in range(a.shape[1]):
                element += a[i, k] * b[k, j]
            out[i, j] = element


def _matrices(dtype, size, seed):
    random, extent = np.random.default_rng(seed), max(1, int(np.sqrt(size)))
    return [jnp.asarray(random.standard_normal(shape).astype(dtype)) for shape in ((extent, 5), (5, extent))]


@numba.njit(error_model="numpy")
def quotient(x, y, out):
    for i in range(x.size):
        out[i] = x[i] / y[i]


@numba.njit
def largest(x, out):
    best = x[0]
    for i in range(x.size):
        if x[i] > best or np.isnan(x[i]):
            best = x[i]
    out[()] = best


@wp.kernel
def twice(x: wp.array(dtype=typing.Any), out: wp.array(dtype=typing.Any)):
    i = wp.tid()
    out[i] = x[i] + x[i]


@wp.kernel
def row_sums(x: wp.array2d(dtype=wp.float32), out: wp.array(dtype=wp.float32)):
    i = wp.tid()
    element = wp.float32(0)
    for j in range(x.shape[1]):
        element += x[i, j]
    out[i] = element


@wp.kernel
def squared_length(x: wp.array(dtype=wp.vec3), out: wp.array(dtype=float)):
    i = wp.tid()
    out[i] = wp.dot(x[i], x[i])


@wp.kernel
def diagonal(x: wp.array(dtype=float), out: wp.array(dtype=wp.vec3)):
    i = wp.tid()
    out[i] = wp.vec3(x[i], x[i], x[i])


def _rows_of(extent):
    return lambda dtype, size, seed: np.random.default_rng(seed).standard_normal((size, extent)).astype(dtype)


OPERATORS = [
    Operator(name="cube", reference=lambda x: x**3, kernels={"numba": cube}),
    Operator(
        name="gather",
        reference=lambda indices, x: x[indices],
        kernels={"numba": gather, "warp": gather_warp},
        sample=_indices_and_vector,
    ),
    Operator(name="positive", reference=lambda x: x > 0, kernels={"numba": positive}),
    Operator(
        name="exclusive_or",
        reference=lambda a, b: a ^ b,
        kernels={"numba": exclusive_or},
        dtypes=["bool", np.uint8, jnp.int32],
        elementwise=True,
    ),
    Operator(name="powers", reference=lambda x: x**3, kernels={"numba": cube}, dtypes=("int8", "int32", "int64")),
    Operator(name="sine_cosine", reference=lambda x: (jnp.sin(x), jnp.cos(x)), kernels={"numba": sine_cosine}),
    Operator(name="total", reference=jnp.sum, kernels={"numba": total}),
    Operator(
        name="scale",
        reference=lambda x, factor: x * factor,
        kernels={"numba": scale},
        sample=lambda dtype, size, seed: (np.arange(1, size + 1).astype(dtype), np.full(1, 1.1, dtype)),
        dtypes="float32",
    ),
    Operator(name="matmul", reference=jnp.matmul, kernels={"numba": matmul}, sample=_matrices),
    Operator(name="quotient", reference=jnp.divide, kernels={"numba": quotient}),
    Operator(name="largest", reference=jnp.max, kernels={"numba": largest}),
    Operator(
        name="twice",
        reference=lambda x: x + x,
        kernels={Backend.WARP: twice},
        dtypes=("float32", "float64", "float16", "int32"),
    ),
    Operator(
        name="row_sums",
        reference=lambda x: x.sum(axis=1),
        kernels={"warp": row_sums},
        sample=_rows_of(5),
        dtypes="float32",
    ),
    Operator(
        name="squared_length",
        reference=lambda x: (x * x).sum(axis=1),
        kernels={"warp": squared_length},
        sample=_rows_of(3),
        dtypes=jnp.float32,
    ),
    Operator(
        name="diagonal",
        reference=lambda x: jnp.stack([x, x, x], axis=1),
        kernels={"warp": diagonal},
        dtypes=[jax.dtypes.canonicalize_dtype("float32")],
    ),
]
