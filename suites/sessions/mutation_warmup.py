"""Prepares the process that the processes of mutants are forked from: imports everything, and compiles what all need.

The fork server imports this module. It must not start a thread, nor JAX's backends: a forked process has neither.
"""

from __future__ import annotations

import os
import sys
from typing import Any

import hypothesis.extra.numpy
import hypothesis.internal.conjecture.engine  # noqa: F401 - Hypothesis imports it when it first draws
import numba

from bridge.ffi.target import CPU
from suites import ops
from suites.checks.drawn.drawn_profile import draw_no_constants_of
from suites.checks.register import checks
from suites.sessions import mutant_trial

__all__ = ["mutant_trial"]


@numba.njit
def _sum(x: Any, out: Any) -> None:
    total = x.dtype.type(0)
    for i in range(x.size):
        total += x[i]
    out[0] = total


def _warm_up() -> None:
    ops.operators()
    checks()
    # Numba builds its tables of functions when it first compiles.
    _sum.compile((numba.float32[::1], numba.float32[::1]))
    draw_no_constants_of(list(sys.modules))
    if os.environ.get("JAX_PLATFORMS") == "cpu":
        CPU.install()


_warm_up()
