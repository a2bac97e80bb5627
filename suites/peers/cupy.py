"""Adds the backend ``cupy``: cuBLAS, cuSPARSE and CUB on NVIDIA GPUs, called through CuPy and timed beside the kernels.

CuPy works on the memory of JAX's arrays and on the stream that XLA's programs run on. So its work waits for theirs, and
the device's clock measures it as it measures a kernel: all kernels, copies and sets of a call.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

import bridge
from suites.kernels.library import LibraryCall, LibraryProgram


@dataclass(frozen=True)
class CupyCall(LibraryCall):
    """A function of CuPy arrays."""

    def program(self) -> LibraryProgram:
        """The call over the memory of JAX's arrays. It keeps none of them: JAX may give their memory away."""

        def prepare(*arrays: Any) -> Callable[[], Any]:
            with xla_stream():
                run = self.prepare(*arrays)

            def on_stream() -> Any:
                with xla_stream():
                    return run()

            return on_stream

        return LibraryProgram(prepare, _borrowed, _Result, keeps=False)


class _Result:
    """A result of CuPy, which may not be there yet."""

    def __init__(self, array: Any) -> None:
        self._array, self._stream = array, xla_stream()
        self.shape, self.dtype = array.shape, array.dtype

    def block_until_ready(self) -> _Result:
        """Waits until it is there; ``jax.block_until_ready`` calls this."""
        self._stream.synchronize()
        return self

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        with self._stream:
            array = self._array.get()
        return array if dtype is None else array.astype(dtype)


@functools.cache
def xla_stream() -> Any:
    """The stream of XLA's programs on the first GPU, as CuPy's object.

    Raises:
        RuntimeError: XLA runs programs on several streams.
    """
    import cupy

    seen = {_stream_of_a_program(), _stream_of_a_program()}
    if len(seen) > 1:
        raise RuntimeError(
            f"XLA ran two programs on two streams ({', '.join(map(hex, sorted(seen)))}), expected one: then nothing "
            "orders the work of CuPy and of XLA. Time without the backend cupy."
        )
    pointer = seen.pop()
    adopt = getattr(cupy.cuda.Stream, "from_external", None)  # since CuPy 14, which deprecates the other way
    return cupy.cuda.ExternalStream(pointer) if adopt is None else adopt(_Pointer(pointer))


@dataclass(frozen=True)
class _Pointer:
    """A stream as CUDA's stream protocol hands it from one library to another."""

    address: int

    def __cuda_stream__(self) -> tuple[int, int]:
        return 0, self.address


_seen: list[int] = []
"""The streams that :func:`_note_stream` was called with."""


def _note_stream(x: Any, out: Any, stream: Any) -> None:
    _seen.append(int(stream))
    out.copy_to_device(x, stream=stream)


def _stream_of_a_program() -> int:
    """The stream that XLA calls a function of the bridge with."""
    x = jnp.zeros(1, jnp.float32, device=jax.local_devices(backend="cuda")[0])  # the default device may be a CPU
    call = bridge.numba_cuda_callable(_note_stream, outs=jax.ShapeDtypeStruct(x.shape, x.dtype))
    jax.block_until_ready(call(x))
    return _seen[-1]


def _borrowed(array: jax.Array) -> Any:
    """A CuPy array over the memory of a JAX array.

    It is made from the address. DLPack would count as a use of the memory, which XLA then cannot take over when
    somebody donates the array.
    """
    import cupy

    array.block_until_ready()  # copies from the host run on another stream, for which nothing else waits
    memory = cupy.cuda.UnownedMemory(array.unsafe_buffer_pointer(), array.nbytes, array)
    return cupy.ndarray(array.shape, array.dtype, cupy.cuda.MemoryPointer(memory, 0))


accept = CupyCall.accepted


def cupy_matmul(A: Any, x: Any) -> Callable[[], Any]:
    """``A @ x`` of a vector or a matrix x, by cuBLAS; integers by a kernel of CuPy's own."""
    import cupy

    out = cupy.empty((A.shape[0], *x.shape[1:]), A.dtype)
    return lambda: cupy.matmul(A, x, out=out)


def cupy_cumsum(x: Any) -> Callable[[], Any]:
    """``cumsum`` by CUB's scan."""
    import cupy

    return lambda: cupy.cumsum(x, dtype=x.dtype)


def cupy_sum(x: Any) -> Callable[[], Any]:
    """The sum by CUB's reduction."""
    return lambda: x.sum(dtype=x.dtype, keepdims=True)


def cupy_softmax(x: Any) -> Callable[[], Any]:
    """``cupyx.scipy.special.softmax`` of each row."""
    from cupyx.scipy.special import softmax

    return lambda: softmax(x, axis=1)


def cusparse_csr_matvec(data: Any, indices: Any, indptr: Any, x: Any) -> Callable[[], Any]:
    """The product of a sparse matrix in CSR form and a vector, by cuSPARSE's SpMV."""
    import cupy
    from cupyx import cusparse

    matrix = _csr(data, indices, indptr, x.size)
    out = cupy.empty(indptr.size - 1, data.dtype)
    return lambda: cusparse.spmv(matrix, x, y=out)


def cusparse_csr_rmatvec(data: Any, indices: Any, indptr: Any, x: Any, y: Any) -> Callable[[], Any]:
    """``y`` plus the product of the transpose of a sparse matrix in CSR form and a vector, by cuSPARSE's SpMV."""
    from cupyx import cusparse

    matrix = _csr(data, indices, indptr, y.size)
    return lambda: cusparse.spmv(matrix, x, y=y.copy(), beta=1, transa=True)


def cusparse_csr_matmat(data: Any, indices: Any, indptr: Any, X: Any) -> Callable[[], Any]:
    """The product of a sparse matrix in CSR form and a dense matrix, by cuSPARSE's SpMM.

    The dense matrix has its rows in a row, so it is given as its transpose. CuPy's result has its columns in a row.
    """
    import cupy
    from cupyx import cusparse

    matrix = _csr(data, indices, indptr, X.shape[0])
    out = cupy.empty((indptr.size - 1, X.shape[1]), data.dtype, order="F")
    return lambda: cusparse.spmm(matrix, X.T, c=out, transb=True)


def _csr(data: Any, indices: Any, indptr: Any, columns: int) -> Any:
    from cupyx.scipy import sparse

    matrix = sparse.csr_matrix((data, indices, indptr), shape=(indptr.size - 1, columns))
    # cuSPARSE adds up entries of one place. CuPy would look for them, and change the matrix if there are any.
    matrix.has_canonical_format = True
    return matrix
