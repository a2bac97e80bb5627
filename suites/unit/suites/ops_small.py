"""Operators as short as they can be, of every kind that the defaults are there for."""

import typing

import jax
import jax.numpy as jnp
import numba
import numpy as np
import warp as wp

from bridge import native_kernel
from suites import Operator
from suites.backends import BACKENDS


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


@wp.kernel
def twice(x: wp.array(dtype=typing.Any), out: wp.array(dtype=typing.Any)):
    i = wp.tid()
    out[i] = x[i] + x[i]


@wp.kernel
def diagonal(x: wp.array(dtype=float), out: wp.array(dtype=wp.vec3)):
    i = wp.tid()
    out[i] = wp.vec3(x[i], x[i], x[i])


@numba.cfunc("void(CPointer(float32), int64, float32, CPointer(float32))")
def scale(x, n, factor, out):
    for i in range(n):
        out[i] = factor * x[i]


scale_c = native_kernel(
    scale, lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype), lambda x, out: (x, x.size, np.float32(3), out)
)

OPERATORS = [
    Operator(name="scale", reference=lambda x: 3 * x, kernels={"native": scale_c}, dtypes=("float32",)),
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
    ),
    Operator(
        name="twice",
        reference=lambda x: x + x,
        kernels={BACKENDS["warp"]: twice},
        dtypes=("float32", "float64", "float16", "int32"),
    ),
    Operator(
        name="diagonal",
        reference=lambda x: jnp.stack([x, x, x], axis=1),
        kernels={"warp": diagonal},
        dtypes=[jax.dtypes.canonicalize_dtype("float32")],
    ),
]
