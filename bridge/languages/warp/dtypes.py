"""Converts JAX's dtypes and shapes to Warp's types."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Iterator
from typing import Any

import jax
import numpy as np
import warp as wp

from bridge.errors import SignatureError

LOCK = threading.RLock()
"""Held while Warp instantiates a generic kernel, or hashes, compiles or loads a module. Warp expects one thread there.
It also parses source: ``ast.parse`` of Python 3.11 fails ("AST constructor recursion depth mismatch") if the
interpreter switches between two threads that are both in it."""

MAX_DIMENSIONS = 4
"""The largest number of dimensions of a Warp array, and of a launch."""

MAX_EXTENT = 2**31 - 1
"""The largest extent of a dimension of an array or a launch: Warp indexes with 32 bits."""

_NAMES = (
    "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
    "float16", "bfloat16", "float32", "float64",
)  # fmt: skip
SCALARS = {name: getattr(wp, name) for name in _NAMES if hasattr(wp, name)}
"""Warp's scalar types by the names of JAX's dtypes; bfloat16 is missing in older versions of Warp."""

NAMES = {scalar: name for name, scalar in SCALARS.items()} | {bool: "bool", int: "int32", float: "float32"}
if hasattr(wp, "handle"):  # of a mesh, BVH or volume
    NAMES[wp.handle] = "uint64"
"""Names of JAX's dtypes by Warp's scalar types, and by the Python types that annotations may use."""


def jaxtype_to_warptype(dtype: Any) -> Any:
    """Warp's scalar type of a JAX dtype, such as ``warp.float32`` of ``jnp.float32``.

    Args:
        dtype: A dtype in any form that ``jnp.dtype`` accepts. Warp has bool, integers of 8 to 64 bits, float16,
            bfloat16, float32 and float64.

    Raises:
        SignatureError: Warp has no such type (complex numbers, 4-bit integers, 8-bit floats), or this is no dtype; also
            a ``TypeError``.
    """
    try:
        name = None if dtype is None else jax.numpy.dtype(dtype).name  # NumPy takes None for float64
    except TypeError:
        name = None
    if name is None:
        raise SignatureError(f"{dtype!r} is no dtype. Pass one such as jnp.float32.")
    if name not in SCALARS:
        raise SignatureError(
            f"Warp {wp.__version__} has no type for {name}, expected one of {', '.join(SCALARS)}. Convert the array "
            "first; pass a complex array as two real ones, or as one with a trailing dimension of 2."
        )
    return SCALARS[name]


def jaxinfo_to_warpinfo(info: Any) -> Any:
    """The annotation of a kernel parameter that takes arrays of this dtype and rank, ``warp.array(dtype=, ndim=)``.

    Args:
        info: A ``jax.ShapeDtypeStruct``, or anything with ``shape`` and ``dtype``. Its extents do not matter.

    Raises:
        SignatureError: As for :func:`jaxtype_to_warptype`; or the rank is not between one and four, as Warp's arrays
            require.
    """
    if not (hasattr(info, "shape") and hasattr(info, "dtype") and hasattr(info.shape, "__len__")):
        raise SignatureError(
            f"got {info!r} of type {type(info).__name__}, expected a jax.ShapeDtypeStruct or an array."
        )
    rank = len(info.shape)
    if not 1 <= rank <= MAX_DIMENSIONS:
        raise SignatureError(
            f"{info.dtype}{list(info.shape)} has {rank} dimensions, but Warp's arrays have 1 to {MAX_DIMENSIONS}. "
            "Reshape it first; a scalar becomes an array of shape (1,)."
        )
    return wp.array(dtype=jaxtype_to_warptype(info.dtype), ndim=rank)


def element_type(dtype: str, inner: tuple[int, ...]) -> Any:
    """The type of an array's elements: a scalar, a vector (``inner`` has one extent) or a matrix (two)."""
    scalar = jaxtype_to_warptype(dtype)
    if len(inner) == 1:
        return wp.types.vector(length=inner[0], dtype=scalar)
    return wp.types.matrix(shape=inner, dtype=scalar) if inner else scalar


def numpy_dtype(name: str) -> np.dtype[Any]:
    """NumPy's dtype of a name of :data:`SCALARS`."""
    return np.dtype(jax.numpy.dtype(name))


def addresses_in(kind: Any) -> Iterator[int]:
    """Where memory of a C type holds addresses, in bytes."""
    if hasattr(kind, "grad"):  # the descriptor of an array, whose addresses are integers
        yield from (kind.data.offset, kind.grad.offset)
    elif issubclass(kind, ctypes.Structure):
        for name, of, *_ in kind._fields_:
            yield from (getattr(kind, name).offset + byte for byte in addresses_in(of))
    elif issubclass(kind, ctypes.Array):
        size = ctypes.sizeof(kind._type_)
        yield from (size * index + byte for index in range(kind._length_) for byte in addresses_in(kind._type_))
    elif issubclass(kind, ctypes.c_void_p):
        yield 0
