"""Installs revisions of this project, each in an environment of its own, with equal versions of what they depend on."""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from suites.errors import RevisionError
from suites.revisions.repository import SHORT

KEPT = 6
"""Environments that stay for later comparisons. The least recently used ones go first: each takes about 1.5 GB."""

PROJECT = "kernel-bridge"

_LINES = 15
_COMPLETE, _LOG, _CONSTRAINTS = "complete", "pip.log", "constraints.txt"


@dataclass(frozen=True)
class Wanted:
    """An environment to build.

    Attributes:
        label: The name of the revision in messages: ``base`` or ``head``.
        commit: The full commit.
        tree: The folder with the files of the commit.
        extras: The extras of the project to install, such as ``suites``.
    """

    label: str
    commit: str
    tree: Path
    extras: tuple[str, ...]


@dataclass(frozen=True)
class Built:
    """An environment that is ready.

    Attributes:
        python: Its Python.
        note: What a reader of the comparison should know of it; None if nothing.
    """

    python: Path
    note: str | None = None


def build(wanted: Sequence[Wanted], folder: Path, constraints: Sequence[str] | None = None) -> list[Built]:
    """Builds environments side by side, or finds those that were built before; returns them in order.

    Both revisions get the versions that this Python has installed, so that a comparison shows their own code and no
    other version of JAX. Where a revision cannot have them, pip chooses, and the note of the environment says so.

    Args:
        wanted: The environments. Equal ones are built once.
        folder: Where environments are kept, each under the name of its commit.
        constraints: Versions to install, such as ``jax==0.10.2``; by default what this Python has installed.

    Raises:
        RevisionError: A revision cannot be installed; the message has the last lines of pip.
    """
    pins = sorted(installed_versions() if constraints is None else constraints)
    places = [folder / f"{one.commit[:SHORT]}-{_digest(one, pins)}" for one in wanted]
    distinct = dict(zip(places, wanted, strict=True))
    _forget(folder, keep=set(distinct))
    with ThreadPoolExecutor(len(distinct) or 1) as pool:
        ready = dict(zip(distinct, pool.map(lambda place: _ready(distinct[place], place, pins), distinct), strict=True))
    return [ready[place] for place in places]


def installed_versions() -> list[str]:
    """Returns the versions of all that this Python has installed, without this project, as constraints for pip."""
    found: dict[str, str] = {}
    for distribution in metadata.distributions():
        name = re.sub(r"[-_.]+", "-", str(distribution.metadata["Name"] or "")).lower()
        if name and name != PROJECT:
            found.setdefault(name, distribution.version)  # the first one on the path is the one that is imported
    return [f"{name}=={version}" for name, version in found.items()]


def _ready(wanted: Wanted, place: Path, pins: Sequence[str]) -> Built:
    """Returns an environment, after building it if it is not there. A second process waits for the first."""
    place.parent.mkdir(parents=True, exist_ok=True)
    with place.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        complete = place / _COMPLETE
        if not complete.exists():
            note = _install(wanted, place, pins)
            complete.write_text(note, encoding="utf-8")
        os.utime(complete)
        return Built(_python(place), complete.read_text(encoding="utf-8") or None)


def _install(wanted: Wanted, place: Path, pins: Sequence[str]) -> str:
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    (place / _CONSTRAINTS).write_text("".join(pin + "\n" for pin in pins), encoding="utf-8")
    _require(wanted, place, [sys.executable, "-m", "venv", str(place)])
    extras = f"[{','.join(wanted.extras)}]" if wanted.extras else ""
    pip = [str(_python(place)), "-m", "pip", "install", "--disable-pip-version-check", "--no-input"]
    project = f"{PROJECT}{extras} @ {wanted.tree.resolve().as_uri()}"
    if _succeeds(place, [*pip, "--constraint", str(place / _CONSTRAINTS), project]):
        return ""
    _require(wanted, place, [*pip, project])
    return (
        f"{wanted.label} ({wanted.commit[:SHORT]}) cannot have the versions that are installed here: pip chose others,"
        " and the times differ by these too"
    )


def _require(wanted: Wanted, place: Path, command: Sequence[str]) -> None:
    if not _succeeds(place, command):
        lines = (place / _LOG).read_text(encoding="utf-8", errors="replace").strip().splitlines()
        raise RevisionError(
            f"{wanted.label}: revision {wanted.commit[:SHORT]} cannot be installed; the last lines of pip:\n"
            + "\n".join(f"    {line}" for line in lines[-_LINES:])
        )


def _succeeds(place: Path, command: Sequence[str]) -> bool:
    variables = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    with (place / _LOG).open("ab") as log:
        try:
            done = subprocess.run(
                command, env=variables, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, check=False
            )
        except OSError as error:
            log.write(f"{command[0]}: {error.strerror}\n".encode())
            return False
    return done.returncode == 0


def _python(place: Path) -> Path:
    return place / "bin" / "python"


def _digest(wanted: Wanted, pins: Sequence[str]) -> str:
    """Identifies all that decides the content of an environment, beside the commit."""
    facts = [sys.version, *wanted.extras, "", *pins]
    return hashlib.sha256("\n".join(facts).encode()).hexdigest()[:8]


def _forget(folder: Path, keep: set[Path]) -> None:
    """Deletes the environments that were not used for longest, beyond :data:`KEPT`; what is being built stays."""
    used = {
        place: (place / _COMPLETE).stat().st_mtime
        for place in (folder.iterdir() if folder.is_dir() else ())
        if (place / _COMPLETE).exists() and place not in keep
    }
    oldest_first = sorted(used, key=used.__getitem__)
    for place in oldest_first[: max(0, len(used) + len(keep) - KEPT)]:
        if time.time() - used[place] > _IN_USE_S:
            shutil.rmtree(place, ignore_errors=True)
            place.with_suffix(".lock").unlink(missing_ok=True)


_IN_USE_S = 3600.0
"""Another comparison may still use an environment that was asked for within this time."""
