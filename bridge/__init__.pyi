"""The public names of the bridge, and where each of them is: type checkers read this table, and so does the package."""

from bridge.cuda.cuda_library import cuda_library as cuda_library
from bridge.debug.mode import debug_mode as debug_mode
from bridge.errors import AbiError as AbiError
from bridge.errors import AbiWarning as AbiWarning
from bridge.errors import BackendError as BackendError
from bridge.errors import BridgeError as BridgeError
from bridge.errors import CudaUnavailableError as CudaUnavailableError
from bridge.errors import DebugError as DebugError
from bridge.errors import DeviceMemoryError as DeviceMemoryError
from bridge.errors import DifferentiationError as DifferentiationError
from bridge.errors import ForkedProcessError as ForkedProcessError
from bridge.errors import GatherWarning as GatherWarning
from bridge.errors import KernelCompileError as KernelCompileError
from bridge.errors import KernelTypeError as KernelTypeError
from bridge.errors import LaunchError as LaunchError
from bridge.errors import ParameterError as ParameterError
from bridge.errors import PlatformError as PlatformError
from bridge.errors import RecordingError as RecordingError
from bridge.errors import SignatureError as SignatureError
from bridge.errors import UnavailableError as UnavailableError
from bridge.errors import WarpUnavailableError as WarpUnavailableError
from bridge.ffi.target import export_checks as export_checks
from bridge.kernel.carried import export_for as export_for
from bridge.kernel.definitions import release as release
from bridge.languages.cuda_raw_kernel import cuda_raw_kernel as cuda_raw_kernel
from bridge.languages.cutile_kernel import cutile_kernel as cutile_kernel
from bridge.languages.native.entry import STREAM as STREAM
from bridge.languages.native.native_kernel import native_kernel as native_kernel
from bridge.languages.numba.numba_kernel import numba_kernel as numba_kernel
from bridge.languages.numba_cuda.numba_cuda_callable import numba_cuda_callable as numba_cuda_callable
from bridge.languages.numba_cuda.numba_cuda_kernel import numba_cuda_kernel as numba_cuda_kernel
from bridge.languages.triton_configurations import triton_configurations as triton_configurations
from bridge.languages.triton_kernel import triton_kernel as triton_kernel
from bridge.languages.tvm_ffi_kernel import tvm_ffi_kernel as tvm_ffi_kernel
from bridge.languages.warp.callable.warp_callable import warp_callable as warp_callable
from bridge.languages.warp.jax_kernel import jax_kernel as jax_kernel
from bridge.languages.warp.parameters import jaxinfo_to_warpinfo as jaxinfo_to_warpinfo
from bridge.languages.warp.parameters import jaxtype_to_warptype as jaxtype_to_warptype
from bridge.operator.choices import Choices as Choices
from bridge.operator.registry import use_backend as use_backend
from bridge.operator.tune import tune as tune
from bridge.operator.xla_custom_kernel import XLACustomKernel as XLACustomKernel

__version__: str
