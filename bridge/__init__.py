"""Turns kernels of other languages into JAX operations, which native XLA FFI handlers call.

The rooms, in the order of a call:

- :mod:`bridge.xla_custom_kernel` and :mod:`bridge.operator`: an operator with several kernels chooses one of them.
- :mod:`bridge.languages`: a kernel of one language becomes a function of arrays, and is compiled for their types.
- :mod:`bridge.source` and :mod:`bridge.signature`: identify a kernel by its content, and a call by its types.
- :mod:`bridge.ffi`: the JAX primitive of a call, and the native handler that XLA calls.
- :mod:`bridge.debug` and :mod:`bridge.agreement`: check kernels as they run, and compare results with a reference.

``import bridge`` imports JAX, and registers the native handlers, so that a process that imports nothing else can run
exported programs. The rest is imported when a name is first used: Numba, LLVM and Warp take longer to import than all
else. Without Warp, functions that need it raise an error when called.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

try:
    from bridge.ffi.target import TARGETS as _TARGETS
except ModuleNotFoundError as _error:
    if not (_error.name or "").startswith("bridge"):
        raise
    raise ImportError(
        f"{_error.name} is missing from kernel-bridge in {__path__[0]}: another package named 'bridge' may have "
        "replaced it. Uninstall that one, and install kernel-bridge again."
    ) from None

if TYPE_CHECKING:
    from bridge.debug.mode import debug_mode
    from bridge.errors import *  # noqa: F403
    from bridge.ffi.target import export_checks
    from bridge.languages.cuda_cpp import cuda_raw_kernel
    from bridge.languages.cutile import cutile_kernel
    from bridge.languages.native_cpu.entry import STREAM
    from bridge.languages.native_cpu.native_kernel import native_kernel
    from bridge.languages.numba_cpu.njit import numba_kernel
    from bridge.languages.numba_cuda.callables import numba_cuda_callable
    from bridge.languages.numba_cuda.cuda_jit import numba_cuda_kernel
    from bridge.languages.release import release
    from bridge.languages.triton import triton_kernel
    from bridge.languages.tvm_functions import tvm_ffi_kernel
    from bridge.languages.warp.callable.warp_callable import warp_callable
    from bridge.languages.warp.dtypes import jaxinfo_to_warpinfo, jaxtype_to_warptype
    from bridge.languages.warp.jax_kernel import jax_kernel
    from bridge.operator.registry import use_backend
    from bridge.xla_custom_kernel import XLACustomKernel

__all__ = [
    "STREAM",
    "AbiError",
    "AbiWarning",
    "BackendError",
    "BridgeError",
    "CudaUnavailableError",
    "DebugError",
    "DeviceMemoryError",
    "DifferentiationError",
    "ForkedProcessError",
    "GatherWarning",
    "KernelCompileError",
    "KernelTypeError",
    "LaunchError",
    "ParameterError",
    "PlatformError",
    "RecordingError",
    "SignatureError",
    "UnavailableError",
    "WarpUnavailableError",
    "XLACustomKernel",
    "cuda_raw_kernel",
    "cutile_kernel",
    "debug_mode",
    "export_checks",
    "jax_kernel",
    "jaxinfo_to_warpinfo",
    "jaxtype_to_warptype",
    "native_kernel",
    "numba_cuda_callable",
    "numba_cuda_kernel",
    "numba_kernel",
    "release",
    "triton_kernel",
    "tvm_ffi_kernel",
    "use_backend",
    "warp_callable",
]
__version__ = "0.1.0"

_HOMES = {
    "STREAM": "bridge.languages.native_cpu.entry",
    "XLACustomKernel": "bridge.xla_custom_kernel",
    "cuda_raw_kernel": "bridge.languages.cuda_cpp",
    "cutile_kernel": "bridge.languages.cutile",
    "debug_mode": "bridge.debug.mode",
    "export_checks": "bridge.ffi.target",
    "jax_kernel": "bridge.languages.warp.jax_kernel",
    "jaxinfo_to_warpinfo": "bridge.languages.warp.dtypes",
    "jaxtype_to_warptype": "bridge.languages.warp.dtypes",
    "native_kernel": "bridge.languages.native_cpu.native_kernel",
    "numba_cuda_callable": "bridge.languages.numba_cuda.callables",
    "numba_cuda_kernel": "bridge.languages.numba_cuda.cuda_jit",
    "numba_kernel": "bridge.languages.numba_cpu.njit",
    "release": "bridge.languages.release",
    "triton_kernel": "bridge.languages.triton",
    "tvm_ffi_kernel": "bridge.languages.tvm_functions",
    "use_backend": "bridge.operator.registry",
    "warp_callable": "bridge.languages.warp.callable.warp_callable",
}
"""The module of each public name, which is imported when the name is first used. The other names are errors."""

_ROOMS = ("agreement", "debug", "errors", "ffi", "languages", "operator", "signature", "source", "xla_custom_kernel")


def __getattr__(name: str) -> Any:
    if name in _ROOMS:
        return importlib.import_module(f"{__name__}.{name}")
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    home = _HOMES.get(name, "bridge.errors")
    if home.startswith("bridge.languages.warp."):
        try:
            importlib.import_module("warp")
        except ImportError as error:
            from bridge.languages.extras import stand_in

            return stand_in(name, error)
    globals()[name] = found = getattr(importlib.import_module(home), name)
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_ROOMS})


def _resolve(platform: str, description: str) -> int:
    """Finds the kernel of a program from another process."""
    from bridge.languages.definitions import DEFINITIONS

    return DEFINITIONS.resolve(platform, description)


for _target in _TARGETS:
    _target.resolve_with(_resolve)
