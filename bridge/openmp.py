"""Limits how long the idle threads of GNU's OpenMP spin, on which Numba may run parallel loops.

A thread that waits for the next loop spins, by default for milliseconds. Each XLA thread that runs a parallel kernel
gets its own set of these threads. Where all processors are taken, a spinning thread keeps a working one from running. A
thread that does not spin has to be woken.

On two processors that other programs used too, one call on 4096 numbers took, in three processes (minimum and median):
without spinning 10 and 10 us in two, 30 and 96 in one; with 3000 spins 3 and 3 us in one, 260 and 320 in two; with
OpenMP's own 300,000 mostly 3 us, and up to 16 ms. So on few processors the threads do not spin.
"""

from __future__ import annotations

import os

FEW = 4
"""The most processors on which threads do not spin."""

SPINS = 3000
"""The spins on more processors: without any, waking many threads took 0.1 ms a call."""


def spins() -> int:
    """The value of GOMP_SPINCOUNT for the processors that this process may use."""
    affinity = getattr(os, "sched_getaffinity", None)
    processors = len(affinity(0)) if affinity else os.cpu_count() or 1
    return 0 if processors <= FEW else SPINS


def limit_spinning() -> None:
    """Sets GOMP_SPINCOUNT, unless the user has set it or OMP_WAIT_POLICY.

    OpenMP reads the variable when it is loaded: by the first parallel kernel of the process, or by the definition of a
    kernel with explicit signatures. So this has to run before.
    """
    if "OMP_WAIT_POLICY" not in os.environ:
        os.environ.setdefault("GOMP_SPINCOUNT", str(spins()))
