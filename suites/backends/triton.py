"""Makes kernels in Triton, for the backend ``triton``."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

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
def widened(x):  # type: ignore[no-untyped-def]
    """A block of numbers to compute with: of float32 in place of 16 bits."""
    return x.to(tl.float32) if x.dtype.primitive_bitwidth < 32 else x


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
