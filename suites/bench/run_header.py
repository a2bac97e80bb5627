"""Describes the machine, its settings and the code, for the header of a run."""

from __future__ import annotations

import os
import platform
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path

import jax
import numba

from reports import Device, Host, Run, new_run_id
from suites.backends.backend import Backend
from suites.bench import gpu
from suites.bench.host_memory import memory_bytes
from suites.bench.machine_identity import machine_identity
from suites.bench.source_commit import source
from suites.bench.usable_cores import usable_cores
from suites.cells import catalogue
from suites.cells.selection import Selection

_LIBRARIES = (
    "kernel-bridge", "jax", "jaxlib", "numba", "numba-cuda", "warp-lang", "llvmlite", "numpy",
    "cupti-python", "nvidia-ml-py",
)  # fmt: skip
_VARIABLES = ("JAX_ENABLE_X64", "JAX_DISABLE_JIT", "JAX_DEBUG_NANS", "KERNEL_BRIDGE_BACKEND", "KERNEL_BRIDGE_DEBUG")
_PLACES = ("NUMBA_CACHE_DIR", "NUMBA_NUM_THREADS")  # the header has the number of threads


def header(selection: Selection, profile: str, keeps_pages: bool) -> Run:
    """Returns the header of a new run.

    Args:
        selection: The cells that are checked or timed. The header names the commit of its operators.
        profile: Name of the profile, as recorded.
        keeps_pages: The result of :func:`suites.bench.freed_memory.keep_freed_pages`.

    Raises:
        RuntimeError: JAX has no such device.
    """
    platform_ = selection.device
    device = jax.devices(platform_)[0]
    return Run(
        run_id=new_run_id(),
        started=datetime.now(UTC).isoformat(timespec="seconds"),
        profile=profile,
        source=source(catalogue.files() or [Path(__file__)]),
        host=_host(),
        device=Device(
            platform=platform_,  # type: ignore[arg-type]
            kind=_cpu_name() if platform_ == "cpu" else device.device_kind,
            ordinal=device.id,
            **({} if platform_ == "cpu" else gpu.facts(device.local_hardware_id)),
        ),
        versions={name: version for name in _LIBRARIES if (version := _version(name))},
        flags={
            "XLA_FLAGS": os.environ.get("XLA_FLAGS"),
            "matmul_precision": getattr(jax.config, "jax_default_matmul_precision", None),
            "OMP_WAIT_POLICY": os.environ.get("OMP_WAIT_POLICY"),
            "GOMP_SPINCOUNT": os.environ.get("GOMP_SPINCOUNT"),
            "malloc_keeps_pages": keeps_pages,
        }
        | {name: value for name, value in sorted(os.environ.items()) if _changes_code(name)},
        selection=selection.by_option(),
        peers=_peers(platform_) if selection.peers else {},
    )


def _peers(platform_: str) -> dict[str, str]:
    """The libraries that have functions for a platform, by backend."""
    return {
        backend.id: backend.library.described()
        for backend in Backend
        if backend.library is not None and platform_ in backend.platforms
    }


def _host() -> Host:
    usable = usable_cores()
    cpu, cores, memory = _cpu_name(), os.cpu_count() or len(usable), memory_bytes()
    return Host(
        cpu=cpu,
        cores=cores,
        affinity=usable,
        # XLA:CPU sizes its pool by the cores that the process may use.
        threads={"numba": numba.get_num_threads(), "xla": len(usable)},
        os=f"{platform.system()} {platform.release()}",
        load=_load(),
        memory_bytes=memory,
        machine=machine_identity(cpu, cores, memory),
    )


def _load() -> float | None:
    try:
        return os.getloadavg()[0]
    except (AttributeError, OSError):
        return None


def _changes_code(variable: str) -> bool:
    """Tells whether an environment variable changes what is compiled or called, or how it is checked."""
    return variable in _VARIABLES or (variable.startswith("NUMBA_") and variable not in _PLACES)


def _cpu_name() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None
