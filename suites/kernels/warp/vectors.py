"""Loads and stores neighbouring elements in Warp kernels with vector instructions of 16 bytes, in C++.

Warp has no such instruction (1.19): in the C++ that it generates, a ``wp.vec4`` is aligned as one float, so the
compiler makes four loads. :mod:`suites.kernels.numba_cuda.vectors` explains the use of a wide load.

A vector must lie at a multiple of its size. So a kernel asks whether its arrays are ``aligned``, and whether it runs
:func:`on_gpu`: the CPU has vectors already, where Warp's tiles or loops are neighbours. Arrays are contiguous.
"""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

from bridge.languages.warp.inputs import declare_writes
from suites.kernels.warp.blocks import scalar, wp

FOUR = 4
"""Elements of a vector: 16 bytes of float32, two times 16 bytes of float64."""

VECTOR_BYTES = 16
"""The most bytes of one load, and where an array begins that is aligned: at a multiple of this."""


@wp.func_native("""
#if defined(__CUDA_ARCH__)
    return true;
#else
    return false;
#endif
""")
def on_gpu() -> bool:  # type: ignore[empty-body]
    """Whether the kernel runs on a GPU: a constant for the compiler."""
    ...


@wp.func_native("""
#if defined(__CUDA_ARCH__)
    return threadIdx.x;
#else
    return 0;
#endif
""")
def thread_of_block() -> int:  # type: ignore[empty-body]
    """The number of this thread in its block. A ``wp.tid()`` of two numbers would keep tiles out of CPU registers."""
    ...


@wp.func_native("""
#if defined(__CUDA_ARCH__)
    return (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
#else
    return tid;
#endif
""")
def block_of(tid: int) -> int:  # type: ignore[empty-body]
    """The number of this block, as ``wp.tid()`` returns it in a launch of :func:`blocks`.

    There Warp divides by the threads of a block, in 64 bits, because its code does not know their number. On a GPU the
    compiler leaves this out where only this function uses the result.
    """
    ...


_LOAD = """
#if defined(__CUDA_ARCH__)
    {type}
    const Vector loaded = *(const Vector*)(x.data + i);
#else
    const {element}* const loaded_at = x.data + i;
#endif
    wp::vec_t<{width}, {element}> found;
    #pragma unroll
    for (int k = 0; k < {width}; ++k)
#if defined(__CUDA_ARCH__)
        found.c[k] = loaded.at[k];
#else
        found.c[k] = loaded_at[k];
#endif
    return found;
"""

_ADJOINT_OF_LOAD = """
    for (int k = 0; k < {width}; ++k)
        wp::adj_address(x, i + k, adj_x, i + k, adj_ret.c[k]);
"""

_STORE = """
#if defined(__CUDA_ARCH__)
    {type}
    Vector stored;
    #pragma unroll
    for (int k = 0; k < {width}; ++k)
        stored.at[k] = values.c[k];
    *(Vector*)(x.data + i) = stored;
#else
    for (int k = 0; k < {width}; ++k)
        x.data[i + k] = values.c[k];
#endif
"""

_ADJOINT_OF_STORE = """
    for (int k = 0; k < {width}; ++k)
        wp::adj_array_store(x, i + k, values.c[k], adj_x, i + k, adj_values.c[k]);
"""

_NO_STORE = "return;"
"""The adjoint of a kernel that need not run again, since its results exist."""

_LOAD_WITHIN = """
    wp::vec_t<{width}, {element}> found;
#if defined(__CUDA_ARCH__)
    if (whole) {{
        {type}
        const Vector loaded = *(const Vector*)(x.data + i);
        #pragma unroll
        for (int k = 0; k < {width}; ++k)
            found.c[k] = loaded.at[k];
        return found;
    }}
#endif
    #pragma unroll
    for (int k = 0; k < {width}; ++k)
        if (i + k < x.shape[0])
            found.c[k] = x.data[i + k];
    return found;
"""

_ADJOINT_OF_LOAD_WITHIN = """
    for (int k = 0; k < {width}; ++k)
        if (i + k < x.shape[0])
            wp::adj_address(x, i + k, adj_x, i + k, adj_ret.c[k]);
"""

_STORE_WITHIN = """
#if defined(__CUDA_ARCH__)
    if (whole) {{
        {type}
        Vector stored;
        #pragma unroll
        for (int k = 0; k < {width}; ++k)
            stored.at[k] = values.c[k];
        *(Vector*)(x.data + i) = stored;
        return;
    }}
#endif
    #pragma unroll
    for (int k = 0; k < {width}; ++k)
        if (i + k < x.shape[0])
            x.data[i + k] = values.c[k];
"""

_ADJOINT_OF_STORE_WITHIN = """
    for (int k = 0; k < {width}; ++k)
        if (i + k < x.shape[0])
            wp::adj_array_store(x, i + k, values.c[k], adj_x, i + k, adj_values.c[k]);
"""

_ALIGNED = """
    return (unsigned long long)x.data % {bytes} == 0;
"""


class Vectors(NamedTuple):
    """The types and functions of a kernel for vectors of one dtype.

    Attributes:
        kind: The Warp type of a vector.
        load: The function of an array and an index that loads a vector; the index is a multiple of the width.
        store: The function of an array, an index and a vector that stores it.
        aligned: The function of an array that says whether it begins at a multiple of VECTOR_BYTES.
        load_within: The function of an array, an index, and whether ``load`` may be used. If not, it loads one by one,
            and gives zeros beyond the end.
        store_within: The function of an array, an index, whether ``store`` may be used, and a vector. If not, it stores
            one by one, and nothing beyond the end.
    """

    kind: Any
    load: Any
    store: Any
    aligned: Any
    load_within: Any
    store_within: Any


def snippet_for(dtype: str, vector: int, **words: Any) -> Callable[..., str]:
    """Makes the function that fills in the words of a snippet in C++.

    Args:
        dtype: The dtype of the elements.
        vector: Elements of a vector.
        **words: Further words.
    """
    alignment = min(VECTOR_BYTES, vector * wp.types.type_size_in_bytes(scalar(dtype)))
    element = f"wp::{dtype}"
    kind = f"struct alignas({alignment}) Vector {{ {element} at[{vector}]; }};"
    return functools.partial(str.format, element=element, type=kind, bytes=VECTOR_BYTES, **words)


@functools.cache
def vectors_of(dtype: str, width: int = FOUR) -> Vectors:
    """Makes the functions for vectors of ``width`` elements. They also work on the CPU.

    Args:
        dtype: The dtype of the arrays.
        width: Elements of a vector, whose bytes are a power of two.
    """
    element = scalar(dtype)
    array, kind = wp.array(dtype=element), wp.types.vector(width, element)
    words = snippet_for(dtype, width, width=width)

    # Warp reads the type of a result only behind this one decorator.
    @wp.func_native(words(_LOAD), words(_ADJOINT_OF_LOAD))
    def load(x: array, i: int) -> kind: ...

    @wp.func_native(words(_STORE), words(_ADJOINT_OF_STORE), _NO_STORE)
    def store(x: array, i: int, values: kind): ...

    @wp.func_native(words(_ALIGNED))
    def aligned(x: array) -> bool: ...  # type: ignore[empty-body]

    @wp.func_native(words(_LOAD_WITHIN), words(_ADJOINT_OF_LOAD_WITHIN))
    def load_within(x: array, i: int, whole: bool) -> kind: ...

    @wp.func_native(words(_STORE_WITHIN), words(_ADJOINT_OF_STORE_WITHIN), _NO_STORE)
    def store_within(x: array, i: int, whole: bool, values: kind): ...

    for reader in (load, aligned, load_within):
        declare_writes(reader)
    for writer in (store, store_within):
        declare_writes(writer, "x")
    return Vectors(kind, load, store, aligned, load_within, store_within)
