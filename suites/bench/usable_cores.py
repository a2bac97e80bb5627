"""Tells which cores of the CPU this process may use."""

from __future__ import annotations

import os


def usable_cores() -> list[int]:
    """Returns the cores that this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return sorted(os.sched_getaffinity(0))
    return list(range(os.cpu_count() or 1))
