"""What to install where an optional package is missing."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from typing import Any, NoReturn

from bridge.errors import WarpUnavailableError

INSTALL_CUDA = 'Install it: pip install "kernel-bridge[cuda13]", or "kernel-bridge[cuda12]" for CUDA 12.'
INSTALL_WARP = 'Install it: pip install "kernel-bridge[warp]".'


def is_installed(package: str) -> bool:
    """Whether a package can be imported, as far as can be told without importing it."""
    try:
        return importlib.util.find_spec(package) is not None
    except (ImportError, ValueError):
        return False


def require_warp(what: str) -> None:
    """Raises WarpUnavailableError, an ImportError, unless Warp is installed."""
    if not is_installed("warp"):
        raise without_warp(what)


def without_warp(what: str, why: object = "no module named 'warp'") -> WarpUnavailableError:
    """The error of something that needs Warp where Warp does not import."""
    return WarpUnavailableError(f"{what} needs NVIDIA Warp, which does not import ({why}). {INSTALL_WARP}")


def stand_in(name: str, why: ImportError) -> Callable[..., NoReturn]:
    """What a function is where Warp is missing: it can be imported, and says what to install when it is called."""

    def missing(*args: Any, **options: Any) -> NoReturn:
        raise without_warp(name, why) from None

    missing.__name__ = missing.__qualname__ = name
    missing.__doc__ = f"Needs NVIDIA Warp. {INSTALL_WARP}"
    return missing
