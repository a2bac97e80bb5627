"""Identifies the machine of a run, so that times of two machines are never compared as if they were of one.

Two machines of one model have the same names of everything. An id that the operating system or the firmware gives them
tells them apart. It stays the same when the machine starts again. Some containers hide it: there a machine counts as
another one after it has started again. Comparing too little is better than comparing two machines.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import platform
from collections.abc import Iterator, Mapping
from pathlib import Path

VARIABLE = "KERNEL_BRIDGE_MACHINE"
"""Environment variable with a name for the machine. It replaces the id where none can be read, or a new one is made for
each container or job."""

_ROOT = Path("/")
_MACHINE_ID = ("etc/machine-id", "var/lib/dbus/machine-id")
_FIRMWARE = ("sys/class/dmi/id/product_uuid", "sys/firmware/devicetree/base/serial-number")
_BOOT_ID = "proc/sys/kernel/random/boot_id"
_CONTAINER = (".dockerenv", "run/.containerenv", "run/systemd/container")
_NO_ID = ("", "uninitialized", "00000000-0000-0000-0000-000000000000", "ffffffff-ffff-ffff-ffff-ffffffffffff")


def machine_identity(cpu: str, cores: int, memory_bytes: int | None) -> str | None:
    """Returns a digest of the machine's id, CPU, cores, memory, operating system and its release; None without an id.

    The digest does not reveal the id.

    Args:
        cpu: Model of the CPU.
        cores: Number of cores.
        memory_bytes: Size of the memory; its GiB count, because the kernel reserves a little more or less of it.
    """
    own = machine_id()
    if own is None:
        return None
    memory_gib = None if memory_bytes is None else round(memory_bytes / (1 << 30))
    facts = ("kernel-bridge machine", own, cpu, cores, memory_gib, platform.system(), platform.release())
    return hashlib.sha256("\0".join(map(str, facts)).encode()).hexdigest()[:16]


def machine_id(root: Path = _ROOT, variables: Mapping[str, str] | None = None) -> str | None:
    """Returns what tells this machine from others of its model, or None.

    Everybody can read ``/etc/machine-id``, but only root the id of the firmware: so the first counts, and root and
    others agree. A container has the first from its image or its runtime, unless it is mounted: so there the second
    counts, and without it the id of the kernel's start.

    Args:
        root: The root of the file system.
        variables: Environment variables; by default the ones of this process.
    """
    variables = os.environ if variables is None else variables
    given = variables.get(VARIABLE, "").strip()
    if given:
        return given
    places: tuple[str, ...] = (*_MACHINE_ID, *_FIRMWARE, _BOOT_ID)
    if is_container(root, variables):
        mounts = {mount[1].lstrip("/") for mount in _mounts(root)}
        places = (*(place for place in _MACHINE_ID if place in mounts), *_FIRMWARE, _BOOT_ID)
    return next((found for found in _readable(root, places) if found.lower() not in _NO_ID), None)


def is_container(root: Path = _ROOT, variables: Mapping[str, str] | None = None) -> bool:
    """Tells whether this process runs in a container: its files come from an image."""
    variables = os.environ if variables is None else variables
    if "container" in variables or any((root / name).exists() for name in _CONTAINER):
        return True
    # Kubernetes leaves no file; the root of its containers lies on an image.
    return any(mount[1] == "/" and mount[2] == "overlay" for mount in _mounts(root))


def _mounts(root: Path) -> list[list[str]]:
    """Returns device, place and type of each mounted file system."""
    with contextlib.suppress(OSError):
        lines = (root / "proc/self/mounts").read_text(errors="replace").splitlines()
        return [words for line in lines if len(words := line.split()) > 2]
    return []


def _readable(root: Path, names: tuple[str, ...]) -> Iterator[str]:
    for name in names:
        with contextlib.suppress(OSError):
            yield (root / name).read_text(errors="replace").strip("\0 \n")
