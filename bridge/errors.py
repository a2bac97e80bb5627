"""Every exception and warning of the bridge: errors have one base class, and a built-in type that one would expect."""


class BridgeError(Exception):
    """Base of all errors raised by :mod:`bridge`."""


class AbiError(BridgeError, ImportError):
    """The installed jaxlib describes an FFI layout that this version does not understand."""


class KernelTypeError(BridgeError, AssertionError, TypeError):
    """The object given as a kernel is not a dispatcher of the expected kernel language."""


class SignatureError(BridgeError, TypeError, ValueError):
    """Arguments, outputs or options are not what the kernel, operator or function takes."""


class KernelCompileError(BridgeError, TypeError):
    """The kernel language refused to compile the kernel for the types of this call."""


class PlatformError(BridgeError, NotImplementedError):
    """The kernel was lowered for a platform that it has no code for."""


class DifferentiationError(BridgeError, NotImplementedError):
    """A kernel was differentiated that has no differentiation rule."""


class BackendError(BridgeError, LookupError):
    """No kernel is registered for the requested backend and platform."""


class ParameterError(BridgeError, TypeError):
    """A keyword parameter of an operator is unknown, missing, traced, unhashable or an array."""


class LaunchError(BridgeError, ValueError):
    """A launch configuration is incomplete, makes no sense, or is over a limit of the device."""


class CudaUnavailableError(BridgeError, ImportError):
    """CUDA kernels need numba-cuda and an NVIDIA GPU, and one of them is missing."""


class WarpUnavailableError(BridgeError, ImportError):
    """Warp kernels need NVIDIA Warp, which is not installed."""


class UnwrittenOutputWarning(UserWarning):
    """The source of a kernel never writes to one of its outputs, which then returns whatever was in memory."""


class DebugError(BridgeError, RuntimeError):
    """A check of :func:`bridge.debug_mode` found that a kernel is wrong."""


class RecordingError(BridgeError, RuntimeError):
    """A function that is to be replayed did something that a recording cannot hold."""
