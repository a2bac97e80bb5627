"""Kernels of other languages as JAX operations, dispatched by native XLA FFI handlers.

The stages of a call: the user's kernel -> its identity (:mod:`bridge.content`) -> the types of the call
(:mod:`bridge.signature`) -> machine code (:mod:`bridge.numba_cpu`) -> a native entry, the FFI target that finds it and
the JAX primitive that calls it (:mod:`bridge.ffi`) -> an operator with several kernels (:mod:`bridge.primitive`).
"""

from bridge.errors import (
    AbiError,
    BackendError,
    BridgeError,
    CudaUnavailableError,
    DifferentiationError,
    KernelCompileError,
    KernelTypeError,
    LaunchError,
    ParameterError,
    PlatformError,
    RecordingError,
    SignatureError,
)
from bridge.export import export_checks
from bridge.lifetime import release
from bridge.numba_cpu import numba_kernel
from bridge.numba_cuda import numba_cuda_kernel
from bridge.numba_cuda_callable import numba_cuda_callable
from bridge.primitive import XLACustomKernel

__all__ = [
    "AbiError",
    "BackendError",
    "BridgeError",
    "CudaUnavailableError",
    "DifferentiationError",
    "KernelCompileError",
    "KernelTypeError",
    "LaunchError",
    "ParameterError",
    "PlatformError",
    "RecordingError",
    "SignatureError",
    "XLACustomKernel",
    "export_checks",
    "numba_cuda_callable",
    "numba_cuda_kernel",
    "numba_kernel",
    "release",
]
__version__ = "0.1.0"
