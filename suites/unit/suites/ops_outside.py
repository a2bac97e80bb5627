"""Operators as somebody else would define them, which go wrong in the ways that can be recorded."""

import ctypes
from dataclasses import replace

import jax
import numba
import numpy as np

from suites import Operator, total_bytes

CRASHES, HANGS = 666.0, 777.0


@numba.njit
def cube(x, out):
    for i in range(x.size):
        out[i] = x[i] * x[i] * x[i]


@numba.njit
def square(x, out):
    for i in range(x.size):
        out[i] = x[i] * x[i]


abort, pause = ctypes.CDLL(None).abort, ctypes.CDLL(None).pause
for function in (abort, pause):
    function.argtypes = []


@numba.njit
def cube_or_worse(x, out):
    if x.size and x[0] == CRASHES:
        abort()
    if x.size and x[0] == HANGS:
        pause()
    for i in range(x.size):
        out[i] = x[i] * x[i] * x[i]


def _special(dtype):
    return {"crashes": (np.array([CRASHES, 1], dtype),), "hangs": (np.array([HANGS, 1], dtype),)}


_RIGHT = Operator(
    name="cube_right",
    outputs=lambda x: [jax.ShapeDtypeStruct(x.shape, x.dtype)],
    reference=lambda x: [x**3],
    kernels={"numba": cube},
    dtypes=("float32",),
    sample=lambda dtype, size, seed: (np.random.default_rng(seed).standard_normal(size).astype(dtype),),
    bytes_read=total_bytes,
    bytes_written=total_bytes,
    flops=lambda x: 2 * x.size,
)
OPERATORS = [
    replace(_RIGHT, name="cube_wrong", kernels={"numba": square}, tested=("numba",)),
    replace(_RIGHT, name="cube_worse", kernels={"numba": cube_or_worse}, tested=("numba",), edges=_special),
]
