"""Shares the machine code that Numba makes of built-in kernels among the processes of a session: half of their work."""

from __future__ import annotations

import hashlib
import os
import warnings
from pathlib import Path
from typing import Any

import numba
from numba.core.caching import FunctionCache
from numba.core.registry import CPUDispatcher

from suites.cells.case import Case


def share_machine_code(case: Case, *, reads: bool) -> None:
    """Has Numba keep the machine code of a built-in kernel in the session's folder, for the other processes.

    Numba finds code by the place and the bytecode of a function, not by its options, its globals and the functions that
    it calls. So each set of options has a folder of its own, and no code outlives a session.

    Args:
        case: The cell.
        reads: Whether to take code that is there. The process that times the compiler does not.
    """
    folder = numba.config.CACHE_DIR
    of_session = os.environ.get("JAX_COMPILATION_CACHE_DIR") == str(Path(folder, "xla"))  # see isolation.shared_code
    dispatcher = getattr(case.operator.kernel(case.backend), "dispatcher", None)
    if not (of_session and isinstance(dispatcher, CPUDispatcher)):
        return
    if not dispatcher.stats.cache_path:
        options = hashlib.sha256(repr(sorted(dispatcher.targetoptions.items())).encode()).hexdigest()[:16]
        numba.config.CACHE_DIR = str(Path(folder, options))
        dispatcher._cache = _SharedCode(dispatcher.py_func, reads=reads)
        numba.config.CACHE_DIR = folder


class _SharedCode(FunctionCache):  # type: ignore[misc]
    def __init__(self, function: Any, *, reads: bool) -> None:
        super().__init__(function)
        self._reads = reads

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        return super().load_overload(sig, target_context) if self._reads else None

    def save_overload(self, sig: Any, data: Any) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # code that holds an address cannot be shared
            super().save_overload(sig, data)
