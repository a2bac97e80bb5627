"""Lists the kernel languages, a row each: its name in operators, its platforms, its function, and what to install."""

from __future__ import annotations

import enum
import functools
import importlib.util
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

from bridge.errors import CudaUnavailableError, UnavailableError, WarpUnavailableError


class Standing(enum.IntEnum):
    """How good a kernel is as the default of a platform: a kernel of higher standing replaces one of lower standing."""

    NONE = 0
    INTERPRETED = 1
    REFERENCE = 2
    ONE_THREAD = 3
    REGULAR = 4
    CHOSEN = 5
    """The user has chosen it."""


@dataclass(frozen=True, eq=False)
class Language:
    """A language in which an operator may have a kernel.

    Attributes:
        name: The backend's name in operators, and in the descriptions of its kernels.
        platforms: The JAX platforms it has code for, and the standing of its kernels on each of them.
        function: Name of the public function that wraps its kernels; empty if users call them through JAX.
        module: The module of the function.
        packages: What pip installs for it, besides the bridge.
    """

    name: str
    platforms: Mapping[str, Standing]
    function: str = ""
    module: str = ""
    packages: tuple[str, ...] = ()

    @property
    def cure(self) -> str:
        """Tells users, in errors, how to install it."""
        # The packages themselves, because pip finds them wherever the bridge came from.
        named = " ".join(f'"{each}"' for each in self.packages)
        return f"Install it: pip install {named}{'; for CUDA 12, with cuda12 and cu12' if 'cuda13' in named else ''}."

    def unavailable(self, library: str, error: Exception) -> UnavailableError:
        """The error where a library that the language needs does not import, or does not work."""
        return UnavailableError(f"{self.function} needs {library}, which does not work ({error}). {self.cure}")

    def require(self, what: str) -> None:
        """Raises WarpUnavailableError, an ImportError, if this is Warp and it is not installed."""
        if "warp" in self.name and not is_installed("warp"):
            raise without_warp(what)

    def adapted(self, generator: Callable[..., Any], platform: str) -> Callable[..., Any]:
        """The generator for one platform. Pallas cannot compile for the CPU: there it gets ``interpret=True``."""
        if self.name != "pallas" or not callable(generator):
            return generator
        parameters = inspect.signature(generator).parameters
        if "interpret" in parameters or any(each.kind is each.VAR_KEYWORD for each in parameters.values()):
            return functools.partial(generator, interpret=platform == "cpu")
        return generator


_CPU, _GPU = {"cpu": Standing.REGULAR}, {"cuda": Standing.REGULAR}
_BOTH = {"cpu": Standing.ONE_THREAD, "cuda": Standing.REGULAR}
_HERE = "bridge.languages"
_CUDA = ("jax[cuda13]", "numba-cuda[cu13]>=0.30.4", "cuda-core>=0.5.1", "numpy<2.5")
_WARP, _TVM = ("warp-lang>=1.19.0",), ("apache-tvm-ffi>=0.1",)

LANGUAGES = {
    language.name: language
    for language in (
        Language("numba", _CPU, "numba_kernel", f"{_HERE}.numba.numba_kernel"),
        Language("numba_cuda", _GPU, "numba_cuda_kernel", f"{_HERE}.numba_cuda.numba_cuda_kernel", _CUDA),
        Language("numba_cuda_callable", _GPU, "numba_cuda_callable", f"{_HERE}.numba_cuda.numba_cuda_callable", _CUDA),
        Language("warp", _BOTH, "jax_kernel", f"{_HERE}.warp.jax_kernel", _WARP),
        Language("warp_callable", _BOTH, "warp_callable", f"{_HERE}.warp.callable.warp_callable", _WARP),
        Language("cuda_raw", _GPU, "cuda_raw_kernel", f"{_HERE}.cuda_raw_kernel", _CUDA),
        Language("triton", _GPU, "triton_kernel", f"{_HERE}.triton_kernel", ("triton>=3.6",)),
        Language("cutile", _GPU, "cutile_kernel", f"{_HERE}.cutile_kernel", ("cuda-tile[tileiras]>=1.7",)),
        Language("native", _CPU, "native_kernel", f"{_HERE}.native.native_kernel"),
        Language("native_cuda", _GPU, "native_kernel", f"{_HERE}.native.native_kernel"),
        Language("tvm_ffi", _CPU, "tvm_ffi_kernel", f"{_HERE}.tvm_ffi_kernel", _TVM),
        Language("tvm_ffi_cuda", _GPU, "tvm_ffi_kernel", f"{_HERE}.tvm_ffi_kernel", _TVM),
        Language("pallas", {"cpu": Standing.INTERPRETED, **_GPU, "tpu": Standing.REGULAR}),
        Language("jnp", dict.fromkeys(("cpu", "cuda", "tpu"), Standing.REFERENCE)),
    )
}
"""All languages of the bridge, by name."""


def is_installed(package: str) -> bool:
    """Whether a package is installed. Its import may still fail."""
    try:
        return importlib.util.find_spec(package) is not None
    except (ImportError, ValueError):
        return False


def require_cuda() -> None:
    """Raises CudaUnavailableError, an ImportError, unless numba-cuda is installed and sees a GPU."""
    if not is_installed("numba_cuda"):  # Numba may have its own numba.cuda, which is a different package
        cure = LANGUAGES["numba_cuda"].cure
        raise CudaUnavailableError(f"CUDA kernels need numba-cuda, which is not installed. {cure}")
    try:
        from numba import cuda
    except ImportError as error:
        raise CudaUnavailableError(f"numba-cuda does not import ({error}). {LANGUAGES['numba_cuda'].cure}") from error
    require_gpu(cuda, "numba-cuda")


def require_gpu(cuda: Any, package: str) -> None:
    """Raises CudaUnavailableError unless a package, whose module ``cuda`` is, sees a GPU."""
    if not cuda.is_available():
        raise CudaUnavailableError(
            f"{package} finds no NVIDIA GPU with a working driver on this machine. Run on a machine that has one; "
            "numba_kernel wraps kernels for the CPU."
        )


def without_warp(what: str, why: object = "no module named 'warp'") -> WarpUnavailableError:
    """The error for a user of Warp where Warp does not import."""
    return WarpUnavailableError(f"{what} needs NVIDIA Warp, which does not import ({why}). {LANGUAGES['warp'].cure}")


def stand_in(name: str, why: ImportError) -> Callable[..., NoReturn]:
    """A stand-in for a function that needs Warp. When called, it raises an error that says how to install Warp."""

    def missing(*args: Any, **options: Any) -> NoReturn:
        raise without_warp(name, why) from None

    missing.__name__ = missing.__qualname__ = name
    missing.__doc__ = f"Needs NVIDIA Warp. {LANGUAGES['warp'].cure}"
    return missing
