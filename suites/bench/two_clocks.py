"""Reads the time from two clocks, which are taken hold of before a file of operators is imported.

A file of operators is ordinary Python and could replace the functions of the module ``time``. The plugin imports this
module first, so the names here keep the functions of Python and of the operating system.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from time import perf_counter as _perf_counter

wall: Callable[[], float] = _perf_counter
"""Seconds, by Python's clock for short times."""

_CLOCK_MONOTONIC_RAW = 4


class _Timespec(ctypes.Structure):
    _fields_ = (("seconds", ctypes.c_long), ("nanoseconds", ctypes.c_long))


def _of_system() -> Callable[[], float]:
    if not sys.platform.startswith("linux"):
        return _perf_counter
    read, struct, reference = ctypes.CDLL(None).clock_gettime, _Timespec, ctypes.byref

    def now() -> float:
        moment = struct()
        read(_CLOCK_MONOTONIC_RAW, reference(moment))
        return float(moment.seconds + 1e-9 * moment.nanoseconds)

    return now


system: Callable[[], float] = _of_system()
"""Seconds, by a clock of the operating system that Python does not use; the same as :data:`wall` outside of Linux."""
