"""Serves :mod:`suites.checks.judging.other_process` from a process of its own."""

from __future__ import annotations

import atexit
import gc
import os
import sys

import numba

import suites.backends  # noqa: F401  JAX and the backends, imported once for all children
from suites.checks.judging.other_process import serve_on


def serve() -> None:
    """Answers requests from standard input until it is closed; what kernels print goes to standard error."""
    numba.njit(lambda x: x)(1)  # prepares Numba's compiler, which takes a second
    atexit.register(gc.freeze)  # the end looks for no garbage, which takes half a second
    with os.fdopen(os.dup(1), "wb") as answers:
        os.dup2(2, 1)
        serve_on(sys.stdin.buffer, answers)
