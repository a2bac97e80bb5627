"""Tries whether calls work with the installed jaxlib: ``python -m bridge.ffi_trial`` ends with 0 if they do.

:mod:`bridge.ffi.newer_ffi` starts it for an XLA FFI that this release does not know. It covers what a handler reads of
a call on the CPU: arguments and results of several ranks, attributes, batches, aliased buffers, and errors.
"""

from __future__ import annotations

import sys
from typing import Any

import jax
import jax.numpy as jnp
import numba
import numpy as np

import bridge


@numba.njit
def _scaled_sums(x: Any, factor: Any, rows: Any, total: Any) -> None:
    total[0] = 0
    for i in range(x.shape[0]):
        rows[i] = 0
        for j in range(x.shape[1]):
            rows[i] += factor[0] * x[i, j]
        total[0] += rows[i]


@numba.njit
def _increment(x: Any, out: Any) -> None:
    for i in range(out.size):
        out[i] = x[i] + 1


@numba.njit
def _refuse(x: Any, out: Any) -> None:
    if x[0] > 0:
        raise ValueError("refused on purpose")
    out[0] = x[0]


def main() -> int:
    """Makes the calls; returns the exit code."""
    x = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    factor = np.full(1, 2, np.float32)
    shapes = jax.ShapeDtypeStruct((3,), np.float32), jax.ShapeDtypeStruct((1,), np.float32)
    sums = bridge.numba_kernel(_scaled_sums, outs=shapes)
    rows, total = jax.jit(sums)(x[0], factor)
    _require("a call with two results", rows, 2 * x[0].sum(1))
    _require("a call with two results", total, [2 * x[0].sum()])
    rows, total = jax.jit(jax.vmap(sums, (0, None)))(x, factor)
    _require("a batch", rows, 2 * x.sum(2))
    _require("a batch", total, 2 * x.sum((1, 2))[:, None])
    start = jnp.zeros(5)
    one = jax.ShapeDtypeStruct((5,), np.float32)
    increment = bridge.numba_kernel(_increment, outs=one, input_output_aliases={0: 0})
    count = jax.jit(lambda x: jax.lax.fori_loop(0, 7, lambda _, value: jax.tree.leaves(increment(value))[0], x))
    _require("a loop in place", count(start), np.full(5, 7))
    refuse = bridge.numba_kernel(_refuse, outs=jax.ShapeDtypeStruct((1,), np.float32))
    try:
        jax.block_until_ready(refuse(np.ones(1, np.float32)))
    except jax.errors.JaxRuntimeError as error:
        if "refused on purpose" not in str(error):
            raise AssertionError(f"an error has the wrong message: {error}") from error
    else:
        raise AssertionError("the error of a kernel was lost")
    return 0


def _require(what: str, found: Any, expected: Any) -> None:
    if not np.array_equal(np.asarray(found), np.asarray(expected, np.float32)):
        raise AssertionError(f"{what} gave {np.asarray(found).tolist()}, expected {np.asarray(expected).tolist()}")


if __name__ == "__main__":
    sys.exit(main())
