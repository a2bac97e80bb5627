"""Kernels that the tests of numba_kernel share."""

import jax
import jax.export
import numba

from bridge import export_checks


@numba.njit
def add(x, y, out):
    for i in range(out.size):
        out[i] = x[i] + y[i]


@numba.njit
def double(x, out):
    for i in range(out.size):
        out[i] = 2 * x[i]


@numba.njit(parallel=True)
def double_parallel(x, out):
    for i in numba.prange(out.size):
        out[i] = 2 * x[i]


@numba.njit
def copy(x, out):
    out[...] = x


@numba.njit
def outer(x, y, out, total):
    """Rank 1 and rank 0 in, rank 2 and rank 0 out."""
    total[()] = 0
    for i in range(out.shape[0]):
        for j in range(out.shape[1]):
            out[i, j] = x[i] * x[j] + y[()]
            total[()] += out[i, j]


@numba.njit
def increment(x, out):
    """For out aliased to x: only adds where it stands."""
    for i in range(x.size):
        x[i] += 1


@numba.njit
def fill(out):
    for i in range(out.size):
        out[i] = i


@numba.njit
def reciprocal(x, out):
    for i in range(out.size):
        if x[i] < 0:
            raise ValueError("negative input", x[i])
        out[i] = 1 / x[i]


@numba.njit
def product(A, x, out):
    """A matrix and a vector in, a vector out."""
    for i in range(A.shape[0]):
        total = x.dtype.type(0)
        for j in range(x.size):
            total += A[i, j] * x[j]
        out[i] = total


def exported(call, *args, platform="cpu"):
    """A program of a call of these arrays or specs, which another process may run."""
    return jax.export.export(jax.jit(call), platforms=[platform], disabled_checks=export_checks())(*args)


def like(x, *_, **__):
    """For results that have the shape and dtype of the first input."""
    return jax.ShapeDtypeStruct(x.shape, x.dtype)
