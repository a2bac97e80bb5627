"""Makes kernels in cuTile, for the backend ``cutile_kernel``.

The backend ``cutile`` of :mod:`suites.vendors.calls` is cuTile's own call from JAX.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

from bridge import UnavailableError, cutile_kernel
from bridge.languages.cutile_kernel import cuda_tile
from suites.kernels.function_kernel import FunctionKernel
from suites.kernels.kernel import Kernel, LaunchedKernel

MISSING: str | None = None
"""Why there is no cuTile; None if there is one."""

ct: Any = None
try:
    ct = cuda_tile()
except UnavailableError as error:
    MISSING = str(error)


def kernel(function: Callable[..., None]) -> Any:
    """``cuda.tile.kernel``; without cuTile the function itself, so that operators load."""
    return function if ct is None else ct.kernel(function)


def function(body: Callable[..., Any]) -> Any:
    """``cuda.tile.function``; without cuTile the function itself."""
    return body if ct is None else ct.function(body)


@function
def widened(x):  # type: ignore[no-untyped-def]
    """A tile of numbers to compute with: of float32 in place of 16 bits."""
    return ct.astype(x, ct.float32) if x.dtype == ct.float16 or x.dtype == ct.bfloat16 else x


def launched(kernel: Any, outs: Any, *, hints: dict[str, int] | None = None, **launch: Any) -> Callable[..., Any]:
    """:func:`bridge.cutile_kernel`, with hints for the compiler such as ``num_worker_warps``."""
    return cutile_kernel(_hinted(kernel, **hints) if hints else kernel, outs, **launch)


@functools.cache
def _hinted(kernel: Any, **hints: int) -> Any:
    return kernel.replace_hints(**hints)


class CutileKernel(LaunchedKernel):
    """A kernel in cuTile.

    Attributes:
        kernel: A function decorated with ``cuda.tile.kernel``.
        launch: Takes the inputs and outputs of a call. Returns the keyword arguments of :func:`bridge.cutile_kernel`:
            ``grid``, a value for each parameter that is no array, and perhaps ``hints``, for ``kernel.replace_hints``.
    """

    wrapper = staticmethod(launched)

    @property
    def adds_atomically(self) -> bool:
        """Whether the source has atomic operations."""
        return ct is not None and "ct.atomic" in inspect.getsource(self.kernel._pyfunc)


class CutileCallable(FunctionKernel):
    """A JAX function that calls cuTile kernels: a :class:`suites.FunctionKernel`."""


def accept(declared: Any) -> Kernel | None:
    """Returns a kernel that says how it is launched, or a function that calls kernels."""
    if isinstance(declared, CutileCallable):
        return declared if callable(declared.make) else None
    return declared if isinstance(declared, CutileKernel) and callable(declared.launch) else None


def missing() -> str | None:
    """Why there is no cuTile; None if there is one."""
    return MISSING
