"""Tells users which optional package to install when they use a kernel language that needs it."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from typing import Any, NoReturn

from bridge.errors import CudaUnavailableError, WarpUnavailableError

# The packages themselves, because pip finds them wherever the bridge came from.
INSTALL_CUDA = (
    'Install it: pip install "jax[cuda13]" "numba-cuda[cu13]>=0.30.4" "cuda-core>=0.5.1" "numpy<2.5"; '
    "for CUDA 12, with cuda12 and cu12."
)
INSTALL_CUTILE = 'Install it: pip install "cuda-tile[tileiras]>=1.7".'
INSTALL_TRITON = 'Install it: pip install "triton>=3.6".'
INSTALL_WARP = 'Install it: pip install "warp-lang>=1.13.0".'


def is_installed(package: str) -> bool:
    """Whether a package is installed. Its import may still fail."""
    try:
        return importlib.util.find_spec(package) is not None
    except (ImportError, ValueError):
        return False


def require_cuda() -> None:
    """Raises CudaUnavailableError, an ImportError, unless numba-cuda is installed and sees a GPU."""
    if not is_installed("numba_cuda"):  # Numba may have its own numba.cuda, which is a different package
        raise CudaUnavailableError(f"CUDA kernels need numba-cuda, which is not installed. {INSTALL_CUDA}")
    try:
        from numba import cuda
    except ImportError as error:
        raise CudaUnavailableError(f"numba-cuda does not import ({error}). {INSTALL_CUDA}") from error
    require_gpu(cuda, "numba-cuda")


def require_gpu(cuda: Any, package: str) -> None:
    """Raises CudaUnavailableError unless a package, whose module ``cuda`` is, sees a GPU."""
    if not cuda.is_available():
        raise CudaUnavailableError(
            f"{package} finds no NVIDIA GPU with a working driver on this machine. Run on a machine that has one; "
            "numba_kernel wraps kernels for the CPU."
        )


def require_warp(what: str) -> None:
    """Raises WarpUnavailableError, an ImportError, unless Warp is installed."""
    if not is_installed("warp"):
        raise without_warp(what)


def without_warp(what: str, why: object = "no module named 'warp'") -> WarpUnavailableError:
    """The error for a user of Warp where Warp does not import."""
    return WarpUnavailableError(f"{what} needs NVIDIA Warp, which does not import ({why}). {INSTALL_WARP}")


def stand_in(name: str, why: ImportError) -> Callable[..., NoReturn]:
    """A stand-in for a function that needs Warp. When called, it raises an error that says how to install Warp."""

    def missing(*args: Any, **options: Any) -> NoReturn:
        raise without_warp(name, why) from None

    missing.__name__ = missing.__qualname__ = name
    missing.__doc__ = f"Needs NVIDIA Warp. {INSTALL_WARP}"
    return missing
