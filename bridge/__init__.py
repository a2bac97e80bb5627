"""Makes kernels of other languages JAX operations, which native XLA FFI handlers call without Python.

1. :mod:`bridge.languages` has one file or folder for each kernel language. A language identifies and compiles kernels.
2. :mod:`bridge.signature` checks the arrays and outputs of a call. :mod:`bridge.source` reads the source of kernels.
3. :mod:`bridge.ffi` has the FFI targets that XLA calls, and the JAX primitive that calls them.
4. :mod:`bridge.operator` joins several kernels into one operator.

Warp is imported when one of its functions is first used. Where it is not installed, the function says so when called.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from bridge.debug.mode import debug_mode
from bridge.errors import (
    AbiError,
    BackendError,
    BridgeError,
    CudaUnavailableError,
    DebugError,
    DifferentiationError,
    KernelCompileError,
    KernelTypeError,
    LaunchError,
    ParameterError,
    PlatformError,
    RecordingError,
    SignatureError,
    UnwrittenOutputWarning,
    WarpUnavailableError,
)
from bridge.export import export_checks, export_self_contained
from bridge.languages.cuda_cpp import cuda_raw_kernel
from bridge.languages.extras import stand_in
from bridge.languages.numba_cpu.njit import numba_kernel
from bridge.languages.numba_cuda.callables import numba_cuda_callable
from bridge.languages.numba_cuda.cuda_jit import numba_cuda_kernel
from bridge.languages.release import release
from bridge.operator.choice.preference import use_backend
from bridge.operator.custom_kernel import XLACustomKernel

if TYPE_CHECKING:
    from bridge.languages.warp.dtypes import jaxinfo_to_warpinfo, jaxtype_to_warptype
    from bridge.languages.warp.wrapping import jax_kernel

__all__ = [
    "AbiError",
    "BackendError",
    "BridgeError",
    "CudaUnavailableError",
    "DebugError",
    "DifferentiationError",
    "KernelCompileError",
    "KernelTypeError",
    "LaunchError",
    "ParameterError",
    "PlatformError",
    "RecordingError",
    "SignatureError",
    "UnwrittenOutputWarning",
    "WarpUnavailableError",
    "XLACustomKernel",
    "cuda_raw_kernel",
    "debug_mode",
    "export_checks",
    "export_self_contained",
    "jax_kernel",
    "jaxinfo_to_warpinfo",
    "jaxtype_to_warptype",
    "numba_cuda_callable",
    "numba_cuda_kernel",
    "numba_kernel",
    "release",
    "use_backend",
]
__version__ = "0.1.0"

_OF_WARP = {
    "jax_kernel": "bridge.languages.warp.wrapping",
    "jaxinfo_to_warpinfo": "bridge.languages.warp.dtypes",
    "jaxtype_to_warptype": "bridge.languages.warp.dtypes",
}


def __getattr__(name: str) -> Any:
    if name in _OF_WARP:
        try:
            importlib.import_module("warp")
        except ImportError as error:
            return stand_in(name, error)
        globals()[name] = found = getattr(importlib.import_module(_OF_WARP[name]), name)
        return found
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
