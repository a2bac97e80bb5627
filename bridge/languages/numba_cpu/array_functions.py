"""Loads Numba's functions of arrays without SciPy's linear algebra, whose import is a fifth of a first kernel's time.

Numba imports ``scipy.linalg`` when it compiles a first function, only to learn whether it is there. Here the answer is
whether SciPy is installed. Numba still imports it, and checks it, when it compiles a function that needs it.
"""

from __future__ import annotations

import importlib.util
import sys
import threading
from typing import Any

_MODULE = "numba.np.arraymath"
_lock = threading.Lock()


def load_array_functions() -> None:
    """Imports Numba's functions of arrays, unless they are imported already."""
    if _MODULE in sys.modules:
        return
    from numba.np import linalg

    with _lock:
        check = linalg.ensure_blas
        linalg.ensure_blas = _require_scipy
        try:
            arraymath: Any = importlib.import_module(_MODULE)
        finally:
            linalg.ensure_blas = check
        if getattr(arraymath, "ensure_blas", None) is _require_scipy:
            arraymath.ensure_blas = check


def _require_scipy() -> None:
    """Raises ImportError if SciPy is not installed."""
    if importlib.util.find_spec("scipy") is None:
        raise ImportError("scipy is required for linear algebra")
