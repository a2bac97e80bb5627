"""Defines all exceptions and warnings of the bridge. Each error also derives from a built-in error."""


class BridgeError(Exception):
    """Base of all errors raised by :mod:`bridge`."""


class AbiError(BridgeError, ImportError):
    """The installed jaxlib or kernel compiler has a layout, or lacks a name, that this version does not understand."""


class AbiWarning(UserWarning):
    """The installed jaxlib or kernel compiler is newer than those that were tried, or lacks a part."""


class KernelTypeError(BridgeError, AssertionError, TypeError):
    """The object given as a kernel is not a dispatcher of the expected kernel language."""


class SignatureError(BridgeError, TypeError, ValueError):
    """A kernel, operator or function does not accept these arguments, outputs or options."""


class KernelCompileError(BridgeError, TypeError):
    """The kernel language refused to compile the kernel for the types of this call."""


class PlatformError(BridgeError, NotImplementedError):
    """The kernel has no code for the platform that it is lowered for."""


class DifferentiationError(BridgeError, NotImplementedError):
    """The kernel or operator has no derivative."""


class BackendError(BridgeError, LookupError):
    """No kernel is registered for the requested backend and platform."""


class ParameterError(BridgeError, TypeError):
    """A keyword parameter of an operator is unknown, missing, traced, unhashable or an array."""


class DeviceMemoryError(BridgeError, MemoryError):
    """A GPU has too little memory left for a kernel, its machine code or its temporaries."""


class LaunchError(BridgeError, ValueError):
    """A launch configuration is incomplete, makes no sense, or is over a limit of the device."""


class UnavailableError(BridgeError, ImportError):
    """A kernel language needs a package that is not installed."""


class CudaUnavailableError(UnavailableError):
    """CUDA kernels need numba-cuda and an NVIDIA GPU, and one of them is missing."""


class WarpUnavailableError(UnavailableError):
    """Warp kernels need NVIDIA Warp, which is not installed."""


class ForkedProcessError(BridgeError, RuntimeError):
    """A process that was forked after XLA had started calls a kernel; XLA's threads do not exist there."""


class GatherWarning(UserWarning):
    """Every device gathers an array that is split over them, because a kernel needs all of it."""


class DebugError(BridgeError, RuntimeError):
    """A check of :func:`bridge.debug_mode` found that a kernel is wrong."""


class RecordingError(BridgeError, RuntimeError):
    """A recording cannot hold a step of the function that is to be replayed."""
