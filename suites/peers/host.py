"""Calls functions of NumPy and SciPy on CPUs, timed beside the kernels.

They read the memory of JAX's arrays, without a copy. Where a function takes a place for its result, it gets one that
was made before: as the outputs of XLA's programs, whose memory is used again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from suites.kernels.library import LibraryCall, LibraryProgram


@dataclass(frozen=True)
class HostCall(LibraryCall):
    """A function of NumPy arrays, read-only ones."""

    def program(self) -> LibraryProgram:
        """The call over the memory of JAX's arrays."""
        return LibraryProgram(self.prepare, np.asarray, np.asarray)


accept = HostCall.accepted


def numpy_into(function: Callable[..., Any]) -> Callable[..., Callable[[], Any]]:
    """A call of a NumPy function of one array that takes ``out``, with a result of the same shape.

    Args:
        function: Such as ``numpy.cumsum``.
    """

    def prepare(x: Any) -> Callable[[], Any]:
        out = np.empty_like(x, subok=False)
        return lambda: function(x, out=out)

    return prepare


def numpy_reduction(function: Callable[..., Any]) -> Callable[..., Callable[[], Any]]:
    """A call of a NumPy reduction of one array to one element, in the dtype of the array.

    Args:
        function: Such as ``numpy.sum``.
    """

    def prepare(x: Any) -> Callable[[], Any]:
        out = np.empty(1, x.dtype)
        scalar = out.reshape(())

        def run() -> Any:
            function(x, out=scalar)
            return out

        return run

    return prepare


def numpy_matmul(A: Any, x: Any) -> Callable[[], Any]:
    """``A @ x`` of a vector or a matrix x, by the BLAS that NumPy was built with, on all of its threads."""
    out = np.empty((A.shape[0], *x.shape[1:]), A.dtype)
    return lambda: np.matmul(A, x, out=out)


def scipy_sigmoid(x: Any) -> Callable[[], Any]:
    """``scipy.special.expit``."""
    from scipy.special import expit

    return numpy_into(expit)(x)


def scipy_softmax(x: Any) -> Callable[[], Any]:
    """``scipy.special.softmax`` of each row."""
    from scipy.special import softmax

    return lambda: softmax(x, axis=1)


def scipy_csr_product(data: Any, indices: Any, indptr: Any, x: Any) -> Callable[[], Any]:
    """The product of a sparse matrix in CSR form and a vector or a dense matrix."""
    matrix = _csr(data, indices, indptr, x.shape[0])
    return lambda: matrix @ x


def scipy_csr_transposed_product(data: Any, indices: Any, indptr: Any, x: Any, y: Any) -> Callable[[], Any]:
    """``y`` plus the product of the transpose of a sparse matrix in CSR form and a vector."""
    transposed = _csr(data, indices, indptr, y.shape[0]).T
    return lambda: y + transposed @ x


def _csr(data: Any, indices: Any, indptr: Any, columns: int) -> Any:
    from scipy.sparse import csr_array

    return csr_array((data, indices, indptr), shape=(indptr.size - 1, columns))
