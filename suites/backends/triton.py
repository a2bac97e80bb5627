"""Makes kernels in Triton, for the backend ``triton``."""

from __future__ import annotations

import math
from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np

from bridge import triton_kernel
from suites.kernels.function_kernel import FunctionKernel
from suites.kernels.kernel import Kernel, LaunchedKernel

MISSING: str | None = None
"""Why there is no Triton; None if there is one."""

triton: Any = None
tl: Any = None
libdevice: Any = None
try:
    triton, tl, libdevice = map(import_module, ("triton", "triton.language", "triton.language.extra.libdevice"))
except ImportError as error:
    MISSING = f"triton does not import ({error}; extra triton)"


def jit(function: Callable[..., None]) -> Any:
    """``triton.jit``; without Triton the function itself, so that operators load."""
    return function if triton is None else triton.jit(function)


@jit
def widened(x):
    """A block of numbers to compute with: of float32 in place of 16 bits."""
    return x.to(tl.float32) if x.dtype.primitive_bitwidth < 32 else x


def has_descriptors(array: Any) -> bool:
    """Whether the copy engine of a GPU moves blocks of an array: its rows begin at multiples of 16 bytes."""
    row = int(array.shape[-1]) * np.dtype(array.dtype).itemsize
    return row % 16 == 0 and bool(math.prod(array.shape))


@jit
def matrix(pointer, rows, columns, stride, ROWS: tl.constexpr, COLUMNS: tl.constexpr, DESCRIBED: tl.constexpr):
    """What `load` and `store` take for a matrix: its tensor descriptor, or its pointer."""
    if DESCRIBED:
        return tl.make_tensor_descriptor(pointer, [rows, columns], [stride, 1], [ROWS, COLUMNS])
    else:
        return pointer


@jit
def load(source, i, j, rows, columns, stride, ROWS: tl.constexpr, COLUMNS: tl.constexpr, DESCRIBED: tl.constexpr):
    """The block of a matrix that begins at (i, j), with zeros outside of it."""
    if DESCRIBED:
        return source.load([i, j])
    else:
        down, across = i + tl.arange(0, ROWS)[:, None], j + tl.arange(0, COLUMNS)[None, :]
        return tl.load(source + down.to(tl.int64) * stride + across, (down < rows) & (across < columns), other=0.0)


@jit
def store(
    target, block, i, j, rows, columns, stride, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
    DESCRIBED: tl.constexpr,
):  # fmt: skip
    """Stores a block of a matrix that begins at (i, j)."""
    if DESCRIBED:
        target.store([i, j], block)
    else:
        down, across = i + tl.arange(0, ROWS)[:, None], j + tl.arange(0, COLUMNS)[None, :]
        tl.store(target + down.to(tl.int64) * stride + across, block, (down < rows) & (across < columns))


class TritonKernel(LaunchedKernel):
    """A kernel in Triton.

    Attributes:
        kernel: A function decorated with ``triton.jit``.
        launch: Takes the inputs and outputs of a call. Returns the keyword arguments of :func:`bridge.triton_kernel`:
            ``grid``, and a value for each parameter that is no array.
    """

    wrapper = staticmethod(triton_kernel)

    @property
    def adds_atomically(self) -> bool:
        """Whether the source has atomic operations."""
        return "tl.atomic" in getattr(self.kernel, "src", "")


class TritonCallable(FunctionKernel):
    """A JAX function that calls Triton kernels: a :class:`suites.FunctionKernel`."""


def accept(declared: Any) -> Kernel | None:
    """Returns a kernel that says how it is launched, or a function that calls kernels."""
    if isinstance(declared, TritonCallable):
        return declared if callable(declared.make) else None
    return declared if isinstance(declared, TritonKernel) and callable(declared.launch) else None


def missing() -> str | None:
    """Why there is no Triton; None if there is one."""
    return MISSING
