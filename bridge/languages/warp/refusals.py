"""Explains why Warp cannot compile a kernel."""

from __future__ import annotations

import warp as wp

from bridge.errors import KernelCompileError
from bridge.source.captured import captured_arrays, error_of


def failed(kernel: wp.Kernel, why: str) -> KernelCompileError:
    """The error for a kernel that Warp cannot compile."""
    return KernelCompileError(f"Warp cannot compile {kernel.key} ({_place(kernel)}): {why}")


def refused(kernel: wp.Kernel, error: Exception) -> KernelCompileError:
    """The error for a kernel that Warp refuses with ``error``, which names a JAX array if the kernel uses one."""
    for found in captured_arrays(kernel.func):
        # A kernel may use an array in warp.static(...), which Python evaluates.
        if type(found.array).__name__ in str(error) or type(found.value).__name__ in str(error):
            return error_of(kernel.key, _place(kernel), kernel.func, found)
    return failed(kernel, f"{type(error).__name__}: {error}")


def _place(kernel: wp.Kernel) -> str:
    code = kernel.func.__code__
    return f"{code.co_filename}:{code.co_firstlineno}"
