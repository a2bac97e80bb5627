"""Turns kernels of other languages into JAX operations, which native XLA FFI handlers call.

The rooms, in the order of a call:

- :mod:`bridge.xla_custom_kernel` and :mod:`bridge.operator`: an operator with several kernels chooses one of them.
- :mod:`bridge.languages`: a kernel of one language becomes a function of arrays, and is compiled for their types.
- :mod:`bridge.source` and :mod:`bridge.signature`: identify a kernel by its content, and a call by its types.
- :mod:`bridge.ffi`: the JAX primitive of a call, and the native handler that XLA calls.
- :mod:`bridge.debug` and :mod:`bridge.agreement`: check kernels as they run, and compare results with a reference.

Functions that need Warp import it when they are first used. Without Warp, they raise an error when called.
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
    GatherWarning,
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
from bridge.ffi.export import export_checks, export_self_contained
from bridge.languages.cuda_cpp import cuda_raw_kernel
from bridge.languages.extras import stand_in as _stand_in
from bridge.languages.numba_cpu.njit import numba_kernel
from bridge.languages.numba_cuda.callables import numba_cuda_callable
from bridge.languages.numba_cuda.cuda_jit import numba_cuda_kernel
from bridge.languages.release import release
from bridge.operator.choice.preference import use_backend
from bridge.xla_custom_kernel import XLACustomKernel

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
    "GatherWarning",
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
            return _stand_in(name, error)
        globals()[name] = found = getattr(importlib.import_module(_OF_WARP[name]), name)
        return found
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
