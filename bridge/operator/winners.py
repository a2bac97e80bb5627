"""Remembers which backend won the tuning of a call, and finds the winners for later calls, also of other processes.

A winner counts for a call whose key is the same: a digest of the operator's name, the code of its generators on the
platform and of the kernels they refer to, the default, the types and parameters of the call, the kind of device, and
the versions of the libraries. Code elsewhere does not count: an old winner is not wrong, only perhaps slower.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import platform
import re
import shutil
import types
import warnings
from collections.abc import Iterable
from importlib import metadata
from pathlib import Path
from typing import Any

import jax
import numpy as np
from llvmlite.binding import get_host_cpu_name

from bridge.cached_files import VARIABLE, cache_folder, keep_latest, replace_file
from bridge.operator.operator_call import Candidate
from bridge.operator.registry import Snapshot
from bridge.operator.static_parameters import Parameters
from bridge.source.references import python_function, references

FOLDER_VARIABLE = "KERNEL_BRIDGE_WINNERS_DIR"
"""The environment variable with the folder for winners; by default, they are beside the other files of the bridge."""

KEPT = 1000
"""Winners of one operator that are kept on disk: the latest ones."""

_FORMAT = "winners-3"
_DISTRIBUTIONS = ("kernel-bridge", "jax", "jaxlib", "numpy", "numba", "numba-cuda", "warp-lang")


class Winners:
    """The winners of one operator, in memory and on disk. A folder that cannot be used causes a warning, not an error.

    Args:
        operator: The name of the operator.
    """

    def __init__(self, operator: str):
        self._operator = operator
        self._known: dict[str, str] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        return Winners, (self._operator,)  # a copy knows what is on disk

    def find(self, snapshot: Snapshot, question: tuple[Any, ...]) -> dict[str, str]:
        """The winners for a call on the devices of this process, by platform.

        Args:
            snapshot: The kernels that are registered now.
            question: The types and parameters of the call, see :func:`question_of`.
        """
        # Each process has winners of its own, but the processes of one program must all trace the same.
        if not (self._known or self._folder().is_dir()) or jax.process_count() > 1:
            return {}
        keys = {each: self._key(snapshot, each, question) for each in snapshot.defaults if kind_of(each)}
        found = {each: self._known.get(key) or self._read(key, snapshot.of(each)) for each, key in keys.items()}
        return {platform: winner for platform, winner in found.items() if winner is not None}

    def remember(self, backend: str, snapshot: Snapshot, platform: str, question: tuple[Any, ...]) -> None:
        """Makes later calls use a backend, in other processes too."""
        key, folder = self._key(snapshot, platform, question), self._folder()
        self._known[key] = backend
        try:
            folder.mkdir(parents=True, exist_ok=True)
            replace_file(folder / f"{key}.txt", backend.encode())
            keep_latest(folder, ".txt", KEPT)
        except OSError as error:
            _warn(f"{self._operator}: the winner of tuning counts in this process only: {error}. Set {VARIABLE}.")

    def forget(self) -> None:
        """Drops all winners, also on disk."""
        self._known = {}
        with contextlib.suppress(FileNotFoundError):
            shutil.rmtree(self._folder())

    def _read(self, key: str, registered: Iterable[Candidate]) -> str | None:
        path = self._folder() / f"{key}.txt"
        try:
            found = path.read_text("utf-8")
            if found in [each.reference for each in registered]:
                return found
            problem = f"it holds {found!r}"
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            problem = str(error)
        _warn(f"{self._operator}: the remembered winner {path} is damaged and does not count ({problem}). Tune again.")
        return None

    def _key(self, snapshot: Snapshot, platform: str, question: tuple[Any, ...]) -> str:
        """A digest of all that a winner depends on."""
        kernels = [(each.reference, content_of(each.generator), repr(each.options)) for each in snapshot.of(platform)]
        default = snapshot.defaults[platform], int(snapshot.standings[platform])
        everything = self._operator, platform, kind_of(platform), _versions(), question, kernels, default
        return hashlib.sha256(repr(everything).encode("utf-8", "surrogatepass")).hexdigest()

    def _folder(self) -> Path:
        readable = re.sub(r"[^A-Za-z0-9_.-]+", "_", self._operator).strip(".")[:40]
        name = f"{readable}-{hashlib.sha256(self._operator.encode()).hexdigest()[:12]}"
        return Path(os.environ.get(FOLDER_VARIABLE) or cache_folder(), _FORMAT, name)


def question_of(args: Iterable[Any], outputs: Iterable[Any], parameters: Parameters) -> tuple[Any, ...]:
    """The types and parameters of a call, which its winner depends on."""
    inputs, results = ([f"{a.dtype}{list(a.shape)}" for a in map(jax.typeof, arrays)] for arrays in (args, outputs))
    values = [
        (name, content_of(value) if python_function(value) else (type(value).__qualname__, repr(value)))
        for name, value in parameters.items
    ]
    return inputs, results, values


def kind_of(platform: str) -> str:
    """The kind of this process's first device of a platform; empty if it has none. JAX has no kinds of CPUs."""
    if platform == "cpu":
        return f"{get_host_cpu_name()}, {os.environ.get('NUMBA_NUM_THREADS') or os.cpu_count()} threads"
    try:
        return str(jax.local_devices(backend=platform)[0].device_kind)
    except RuntimeError:
        return ""


@functools.cache
def _versions() -> dict[str, str]:
    # Installed packages count, imported or not: a winner may be looked for before its language is imported.
    found = {"python": platform.python_version()}
    for name in _DISTRIBUTIONS:
        with contextlib.suppress(metadata.PackageNotFoundError):
            found[name] = metadata.version(name)
    return found


def _warn(message: str) -> None:
    warnings.warn(message, RuntimeWarning, stacklevel=2)


def content_of(value: Any) -> Any:
    """What counts of a generator or of a parameter, as plain values that are equal in every process.

    Of a function, it is the name, the bytecode, the constants, the default values, and the same of what the function
    refers to, one level deep.
    """
    if isinstance(value, functools.partial):
        return content_of(value.func), [content_of(each) for each in (*value.args, *value.keywords.items())]
    function = python_function(value)
    if function is not None:
        return _own_content(function), [(name, _own_content(each)) for name, each in references(function).items()]
    return _own_content(value)


def _own_content(value: Any) -> Any:
    function = python_function(value)
    if function is not None:
        defaults = function.__defaults__, tuple((function.__kwdefaults__ or {}).items())
        return function.__qualname__, _own_content(function.__code__), _own_content(defaults)
    if isinstance(value, types.CodeType):
        return value.co_code, value.co_names, _own_content(value.co_consts)
    if isinstance(value, tuple):
        return [_own_content(each) for each in value]
    if isinstance(value, frozenset):
        return sorted(map(repr, value))
    named = isinstance(value, bool | int | float | complex | str | bytes | np.generic | None)
    return type(value).__qualname__, repr(value) if named else None
