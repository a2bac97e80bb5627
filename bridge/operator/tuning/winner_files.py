"""Keeps the winners of one operator on disk, one file for each.

The key of a winner is the name of its file. So writers never wait for each other, and a damaged file costs one winner.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import warnings
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from types import MappingProxyType

import msgspec

from bridge.cached_files import VARIABLE, cache_folder, keep_latest, replace_file
from bridge.source.content import PROCESS_LOCAL

FOLDER_VARIABLE = "KERNEL_BRIDGE_WINNERS_DIR"
"""The environment variable with the folder for winners; by default, they are beside the other files of the bridge."""

KEPT = 1000
"""Winners of one operator that are kept on disk: the latest ones."""

_FORMAT = "winners-1"


class Winner(msgspec.Struct, frozen=True, kw_only=True):
    """The fastest right backend for one call on one kind of device.

    Attributes:
        operator: The name of the operator.
        platform: JAX's name of the platform.
        device_kind: See :meth:`bridge.operator.tuning.toolchain.Toolchain.kind_of`.
        versions: Versions of the packages that it was measured with.
        inputs: Dtype and shape of each argument, as text.
        outputs: Dtype and shape of each result, as text.
        parameters: Values of the keyword parameters as text, by name.
        key: Digest of everything that a call must have in common with the measured one.
        backend: The name of the winner.
        configuration: The name of its configuration, if it has any.
        microseconds: Median time of a call.
        tuned_at: When it was measured.
    """

    operator: str
    platform: str
    device_kind: str
    versions: dict[str, str]
    inputs: list[str]
    outputs: list[str]
    parameters: dict[str, str]
    key: str
    backend: str
    configuration: str | None
    microseconds: float
    tuned_at: datetime

    @property
    def is_portable(self) -> bool:
        """Whether it counts for other processes too."""
        return not self.key.startswith(PROCESS_LOCAL)

    @property
    def reference(self) -> str:
        """Its name in a call: ``"backend"`` or ``"backend:configuration"``."""
        return self.backend if self.configuration is None else f"{self.backend}:{self.configuration}"

    def __str__(self) -> str:
        at = self.tuned_at.astimezone().strftime("%Y-%m-%d %H:%M")
        return f"tuned {at}, {self.microseconds:.4g} us on {self.device_kind}"


class WinnerFiles:
    """The winners of one operator on disk. A folder that cannot be used causes a warning, not an error.

    Args:
        operator: The name of the operator.
    """

    def __init__(self, operator: str):
        self._operator = operator

    def read(self, versions: Mapping[str, str]) -> Mapping[str, Winner]:
        """The winners that were measured with these versions, by key."""
        folder = self._folder()
        known, damaged = {}, []
        try:
            names = [name for name in sorted(os.listdir(folder)) if name.endswith(".json")]
        except FileNotFoundError:
            return {}
        except OSError as error:
            _warn(f"{self._operator}: the winners of earlier tunings cannot be read: {error}. Set {VARIABLE}.")
            return {}
        for name in names:
            try:
                winner = msgspec.json.decode((folder / name).read_bytes(), type=Winner)
            except FileNotFoundError:  # dropped by another process at this moment
                continue
            except (OSError, ValueError, msgspec.MsgspecError):
                damaged.append(name)
                continue
            if winner.versions == versions and winner.operator == self._operator and f"{winner.key}.json" == name:
                known[winner.key] = winner
        if damaged:
            _warn(
                f"{self._operator}: {len(damaged)} of {len(names)} remembered winners in {folder} are damaged and do "
                f"not count ({damaged[0]}). Tune again, or drop them with forget()."
            )
        return MappingProxyType(known)

    def write(self, winner: Winner) -> None:
        """Adds or replaces a winner."""
        folder = self._folder()
        try:
            folder.mkdir(parents=True, exist_ok=True)
            replace_file(folder / f"{winner.key}.json", msgspec.json.format(msgspec.json.encode(winner)))
            keep_latest(folder, ".json", KEPT)
        except OSError as error:
            _warn(f"{winner.operator}: the winner of tuning counts in this process only: {error}. Set {VARIABLE}.")

    def drop(self) -> None:
        """Deletes all winners."""
        folder = self._folder()
        with contextlib.suppress(FileNotFoundError):
            for name in os.listdir(folder):
                (folder / name).unlink(missing_ok=True)

    def _folder(self) -> Path:
        readable = re.sub(r"[^A-Za-z0-9_.-]+", "_", self._operator).strip(".")[:40]
        name = f"{readable}-{hashlib.sha256(self._operator.encode()).hexdigest()[:12]}"
        return Path(os.environ.get(FOLDER_VARIABLE) or cache_folder(), _FORMAT, name)


def _warn(message: str) -> None:
    warnings.warn(message, RuntimeWarning, stacklevel=2)
