"""Makes the header of a run of the dispatch benchmark."""

from __future__ import annotations

import os
import platform

import msgspec

from reports import Run
from reports.pages.call_costs import PROFILE
from suites.bench import run_header
from suites.cells.selection import Selection
from suites.dispatch import native

_SETTINGS = ("JAX_ENABLE_X64", "OMP_NUM_THREADS", "NUMBA_NUM_THREADS", "CXX", "CXXFLAGS")


def dispatch_header(device: str) -> Run:
    """Returns the header: the header of any run, with the compiler and its settings.

    Args:
        device: ``cpu`` or ``cuda``.

    Raises:
        RuntimeError: JAX has no such device.
    """
    header = run_header.header(Selection(device=device), PROFILE, keeps_pages=False)
    return msgspec.structs.replace(
        header,
        versions=header.versions | {"python": platform.python_version()} | native.compiler_versions(device),
        flags=header.flags | {name: os.environ.get(name) for name in _SETTINGS},
    )
