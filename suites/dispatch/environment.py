"""The machine and the software a run was measured with, as text by name."""

from __future__ import annotations

import os
import platform
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import jax

_LIBRARIES = ("jax", "jaxlib", "numba", "numba-cuda", "llvmlite", "warp-lang", "numpy")
_SETTINGS = ("XLA_FLAGS", "JAX_ENABLE_X64", "OMP_NUM_THREADS", "NUMBA_NUM_THREADS", "CXX", "CXXFLAGS")


def host(device: jax.Device) -> dict[str, str]:
    """The CPU, the cores this process may use, the load at the start, the device and the settings that matter."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    settings = {name: os.environ[name] for name in _SETTINGS if os.environ.get(name)}
    return {
        "cpu": _cpu_model(),
        "cores": f"{cores} of {os.cpu_count()}",
        "load": f"{os.getloadavg()[0]:.2f}" if hasattr(os, "getloadavg") else "unknown",
        "os": f"{platform.system()} {platform.machine()}",
        "device": device.device_kind,
        **settings,
    }


def versions(compilers: dict[str, str]) -> dict[str, str]:
    """Versions of Python, of the libraries that are installed, and of the given compilers."""
    found = {"python": platform.python_version()}
    for library in _LIBRARIES:
        try:
            found[library] = version(library)
        except PackageNotFoundError:
            continue
    return found | compilers


def _cpu_model() -> str:
    if sys.platform == "linux":
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()
