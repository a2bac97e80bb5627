"""Runs kernels of the backend ``numba_cuda`` through numba-cuda-mlir, the successor of numba-cuda.

The source of a kernel is the same: only the module ``cuda`` that it refers to is another one, in it and in the device
functions that it calls. Building blocks that make LLVM code themselves have no such source, so kernels that use them
stay with numba-cuda.
"""

from __future__ import annotations

import functools
import importlib.util
from collections.abc import Sequence
from types import CellType, CodeType, FunctionType
from typing import Any

from suites.backends.numba_cuda import CudaKernel, accept_kernel
from suites.kernels.kernel import Kernel
from suites.kernels.numba_cuda import blocks as numba_cuda_blocks

OPTIONS = ("device", "fastmath", "launch_bounds", "max_registers")
"""The options of ``cuda.jit`` that both compilers have."""


class MlirKernel(CudaKernel):
    """A kernel of numba-cuda that numba-cuda-mlir compiles."""

    def kernel_of(self, inputs: Sequence[Any], outs: Sequence[Any]) -> Any:
        """The kernel that runs for the shapes of a call, made by numba-cuda-mlir."""
        return ported(super().kernel_of(inputs, outs))


def accept(declared: Any) -> Kernel | None:
    """Returns a kernel of numba-cuda, or of numba-cuda-mlir itself, to be compiled by the latter."""
    if isinstance(declared, MlirKernel):
        return declared
    accepted = accept_kernel(declared)
    return MlirKernel(**vars(accepted)) if isinstance(accepted, CudaKernel) else None


def missing() -> str | None:
    """Why there is no numba-cuda-mlir; None if there is one."""
    if importlib.util.find_spec("numba_cuda_mlir") is None:
        return "numba-cuda-mlir is not installed"
    try:
        _overload_building_blocks()
    except ImportError as error:
        return f"numba-cuda-mlir does not import: {error}"
    return None


@functools.cache
def _overload_building_blocks() -> None:
    """Gives the functions that kernels call, and that are no device functions, their code."""
    from numba_cuda_mlir import extending

    for function, typer in numba_cuda_blocks.OVERLOADS:
        extending.overload(function, typing_registry=extending.typing_registry)(_with_cuda_replaced(typer))


@functools.cache
def ported(kernel: Any) -> Any:
    """The kernel or device function as numba-cuda-mlir compiles it; one that it made already is returned itself.

    Args:
        kernel: A kernel under ``numba.cuda.jit``, or a Python function.
    """
    from numba_cuda_mlir import cuda

    if type(kernel).__module__.startswith("numba_cuda_mlir."):
        return kernel
    _overload_building_blocks()
    options = {name: value for name, value in getattr(kernel, "targetoptions", {}).items() if name in OPTIONS and value}
    return cuda.jit(**options)(_with_cuda_replaced(getattr(kernel, "py_func", kernel)))


def _replaced(name: str, value: Any) -> Any:
    if type(value).__module__.startswith("numba.cuda.") and hasattr(value, "py_func"):
        return ported(value)
    if value is numba_cuda_blocks.cuda and name == "cuda":  # both None without numba-cuda
        from numba_cuda_mlir import cuda

        return cuda
    return value


def _with_cuda_replaced(function: FunctionType) -> FunctionType:
    """The function with another module ``cuda``, and the device functions that it calls ported to it."""
    code = function.__code__
    scope = {**function.__globals__}
    scope |= {name: _replaced(name, scope[name]) for name in _names(code) if name in scope}
    cells = zip(code.co_freevars, function.__closure__ or (), strict=True)
    closure = tuple(CellType(_replaced(name, cell.cell_contents)) for name, cell in cells)
    result = FunctionType(code, scope, function.__name__, function.__defaults__, closure or None)
    result.__kwdefaults__ = function.__kwdefaults__
    return result


def _names(code: CodeType) -> set[str]:
    """The names that a function refers to, and the functions within it."""
    return set(code.co_names).union(*(_names(each) for each in code.co_consts if isinstance(each, CodeType)))
