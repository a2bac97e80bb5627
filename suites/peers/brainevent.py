"""Calls sparse and event-driven products of brainevent, timed beside the kernels.

Its functions are operations of JAX on arrays whose structure is known, so they are called from Python.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax

from suites.kernels.library import LibraryCall


@dataclass(frozen=True)
class BraineventCall(LibraryCall):
    """A function of JAX arrays that calls brainevent."""


accept = BraineventCall.accepted


def brainevent_csr_matvec(data: Any, indices: Any, indptr: Any, x: Any) -> Callable[[], Any]:
    """The product of a sparse matrix in CSR form and a vector."""
    product = _product((indptr.size - 1, x.size), False)
    return lambda: product(data, indices, indptr, x)


def brainevent_csr_rmatvec(data: Any, indices: Any, indptr: Any, x: Any, y: Any) -> Callable[[], Any]:
    """``y`` plus the product of the transpose of a sparse matrix in CSR form and a vector."""
    product = _product((x.size, y.size), True)
    return lambda: product(data, indices, indptr, x, y)


def brainevent_csr_binary_matvec(data: Any, indices: Any, indptr: Any, spikes: Any) -> Callable[[], Any]:
    """The product of a sparse matrix in CSR form and a vector of spikes, which adds up the columns with a spike."""
    import brainevent

    matrix = brainevent.CSR((data, indices, indptr), shape=(indptr.size - 1, spikes.size))
    return _called(lambda spikes: matrix @ brainevent.BinaryArray(spikes), spikes)


@functools.cache
def _product(shape: tuple[int, int], transpose: bool) -> Callable[..., Any]:
    """The compiled product for matrices of one shape; a last argument is added to it."""
    import brainevent

    def product(data: Any, indices: Any, indptr: Any, x: Any, *y: Any) -> Any:
        result = brainevent.csrmv(data, indices, indptr, x, shape=shape, transpose=transpose)
        return y[0] + result if y else result

    return jax.jit(product)


def _called(call: Callable[..., Any], spikes: Any, *others: Any) -> Callable[[], Any]:
    """The call, compiled on a CPU, where the time of the host counts.

    A matrix with space for events is part of a compiled program. The benchmark of a GPU takes turns with many matrices,
    and would compile a program for each.
    """
    function = jax.jit(call) if next(iter(spikes.devices())).platform == "cpu" else call
    return lambda: function(spikes, *others)
