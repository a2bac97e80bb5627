"""Reads how much memory the machine has, and how much of it is left within the limits of a container."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

_ROOT = Path("/")


def memory_bytes(root: Path = _ROOT) -> int | None:
    """Returns the size of the machine's memory; None if the system does not tell."""
    return _meminfo(root).get("MemTotal")


def available_bytes(root: Path = _ROOT) -> int | None:
    """Returns the memory that processes can still take without swapping, within the limits of their container."""
    found = [value for value in (_meminfo(root).get("MemAvailable"), *_left_in_groups(root)) if value is not None]
    return max(0, min(found)) if found else None


def _meminfo(root: Path) -> dict[str, int]:
    with contextlib.suppress(OSError, ValueError):
        lines = [line.split() for line in (root / "proc/meminfo").read_text().splitlines()]
        return {words[0].rstrip(":"): int(words[1]) << 10 for words in lines if len(words) > 1}
    return {}


def _left_in_groups(root: Path) -> Iterator[int]:
    """Yields what each control group of this process, of either version, leaves of its limit."""
    with contextlib.suppress(OSError):
        for line in (root / "proc/self/cgroup").read_text().splitlines():
            _, kinds, path = line.split(":", 2)
            if kinds and "memory" not in kinds.split(","):
                continue
            top, limit, usage = (
                ("sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes")
                if kinds
                else ("sys/fs/cgroup", "memory.max", "memory.current")
            )
            parts = [part for part in path.split("/") if part]
            # In a container the path may be the one outside; the limit then lies at the top.
            for depth in range(len(parts) + 1):
                folder = root.joinpath(top, *parts[:depth])
                with contextlib.suppress(OSError, ValueError):  # "max" is no limit
                    yield int((folder / limit).read_text()) - int((folder / usage).read_text())
