"""Describes the machine, its settings and the code, for the header of a run."""

from __future__ import annotations

import os
import platform
import subprocess
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path

import jax
import numba

from reports import Device, Host, Run, Source, new_run_id
from suites.bench import gpu
from suites.bench.code_digest import code_digest
from suites.bench.freed_memory import keep_freed_pages as keep_freed_pages
from suites.cells import catalogue
from suites.cells.selection import Selection

_LIBRARIES = ("kernel-bridge", "jax", "jaxlib", "numba", "numba-cuda", "warp-lang", "llvmlite", "numpy")
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
        source=_source(catalogue.files() or [Path(__file__)]),
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
    )


def usable_cores() -> list[int]:
    """Returns the cores that this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return sorted(os.sched_getaffinity(0))
    return list(range(os.cpu_count() or 1))


def _host() -> Host:
    cores = usable_cores()
    return Host(
        cpu=_cpu_name(),
        cores=os.cpu_count() or len(cores),
        affinity=cores,
        # XLA:CPU sizes its pool by the cores that the process may use.
        threads={"numba": numba.get_num_threads(), "xla": len(cores)},
        os=f"{platform.system()} {platform.release()}",
    )


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


def _source(files: Sequence[Path]) -> Source:
    """Returns the commit of the repository that tracks the first of these files; unknown if none does.

    Git is asked before any kernel ran: a process that has used OpenMP must not fork.
    """

    def git(*arguments: str) -> str | None:
        command = ["git", "-C", str(files[0].parent), *arguments]
        try:
            return subprocess.run(command, capture_output=True, text=True, check=True, timeout=10).stdout.strip()
        except (OSError, subprocess.SubprocessError):
            return None

    digest = code_digest()
    # An installed package may lie in a folder of somebody else's repository, which does not track it.
    if git("ls-files", "--error-unmatch", files[0].name) is None:
        return Source(digest=digest)
    status = git("status", "--porcelain")
    dirty = None if status is None else bool(status)
    return Source(commit=git("rev-parse", "--verify", "HEAD"), dirty=dirty, digest=digest)
