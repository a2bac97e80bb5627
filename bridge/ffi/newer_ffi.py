"""Tries an XLA FFI that is newer than this release in a process of its own, before this process relies on it.

The layout of the structs comes from the header, so a newer minor version mostly works. What it cannot tell is whether a
field means something else now, which would crash the process. So the trial may crash instead.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import subprocess
import sys
import warnings
from collections.abc import Sequence
from pathlib import Path

from jaxlib.version import __version__ as jaxlib_version

from bridge.cached_files import cache_folder, keep_latest, replace_file
from bridge.errors import AbiError, AbiWarning
from bridge.ffi.native.abi import NEWEST, read_header

TRIAL_VARIABLE = "KERNEL_BRIDGE_FFI_TRIAL"
"""Set in the process of the trial, which must not start another one."""

LIMIT_S = 300.0
"""Seconds after which a trial has failed."""

_PACKAGE = Path(__file__).parents[1]
_SUFFIX = ".ffi-trial"
_MOST_TRIALS = 20
_CURE = "Install a jaxlib that this release of kernel-bridge supports, or a newer kernel-bridge."


def require_sound(version: tuple[int, int], command: Sequence[str] | None = None, limit_s: float = LIMIT_S) -> None:
    """Tries the installed FFI once, and warns that it is unknown; a trial that succeeded is remembered on disk.

    Args:
        version: Its major and minor version.
        command: The program of the trial, which ends with 0 if calls work; by default :mod:`bridge.ffi_trial`.
        limit_s: Seconds that it may take.

    Raises:
        AbiError: The trial failed, crashed, or took too long.
    """
    if os.environ.get(TRIAL_VARIABLE):
        return
    what = f"the XLA FFI {version[0]}.{version[1]} of jaxlib {jaxlib_version}"
    newest = f"{NEWEST[0]}.{NEWEST[1]}"
    mark = cache_folder() / f"{_identity(version)}{_SUFFIX}"
    if not mark.exists():
        failure = _failure(command, limit_s)
        if failure is not None:
            raise AbiError(f"{what} is newer than {newest}, and calls do not work with it: {failure}. {_CURE}")
        with contextlib.suppress(OSError):  # it is tried again in the next process
            mark.parent.mkdir(parents=True, exist_ok=True)
            replace_file(mark, b"")
            keep_latest(mark.parent, _SUFFIX, _MOST_TRIALS)
    warnings.warn(
        f"{what} is newer than {newest}, the newest that this release of kernel-bridge knows. Calls on the CPU worked "
        "in a trial; calls on a GPU were not tried.",
        AbiWarning,
        stacklevel=2,
    )


def _failure(command: Sequence[str] | None, limit_s: float) -> str | None:
    """Says how the trial failed; None if it did not."""
    if command is None:
        if not sys.executable:
            return "there is no Python to try them in"
        command = [sys.executable, "-P", "-m", "bridge.ffi_trial"]
    path = os.pathsep.join([str(_PACKAGE.parent), *filter(None, [os.environ.get("PYTHONPATH")])])
    variables = os.environ | {TRIAL_VARIABLE: "1", "JAX_PLATFORMS": "cpu", "PYTHONPATH": path}
    try:
        ended = subprocess.run(
            command, env=variables, stdin=subprocess.DEVNULL, capture_output=True, timeout=limit_s, check=False
        )
    except subprocess.TimeoutExpired:
        return f"a trial did not end within {limit_s:g} s"
    except OSError as error:
        return f"a trial cannot be started ({error})"
    if ended.returncode == 0:
        return None
    if ended.returncode < 0:
        return f"a trial was ended by signal {-ended.returncode}"
    lines = ended.stderr.decode(errors="replace").strip().splitlines() or ["no message"]
    return f"a trial failed: {lines[-1]}"


def _identity(version: tuple[int, int]) -> str:
    """Names what was tried: another jaxlib, header, Python or bridge is tried anew."""
    sources = [path.read_bytes() for path in sorted(_PACKAGE.rglob("*.py"))]
    parts = [repr((version, jaxlib_version, sys.version)).encode(), read_header().encode(), *sources]
    return hashlib.sha256(b"\0".join(parts)).hexdigest()[:32]
