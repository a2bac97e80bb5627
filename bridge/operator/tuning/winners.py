"""What tuning found, kept in memory and on disk: a call in, the backend that won for it on each platform out.

A winner counts for what it was measured for and for nothing else: operator, device, library versions, shapes, dtypes,
parameters, candidates and default. All of it goes into one key, the name of the winner's file, so that writers never
wait for each other and one damaged file costs one winner.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import hashlib
import os
import platform as machine
import re
import sys
import tempfile
import threading
import types
import warnings
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from importlib import metadata
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import jax
import msgspec
import numba
import platformdirs

from bridge.errors import BridgeError
from bridge.operator.choice.candidates import NO_WINNERS, candidates
from bridge.operator.choice.registry import CHOSEN, Snapshot
from bridge.source.content import PROCESS_LOCAL, ContentWalk

VARIABLE = "KERNEL_BRIDGE_CACHE_DIR"
"""Environment variable with the folder of what outlives a process; by default, one in the user's cache folder."""

KEPT = 1000
"""Winners of one operator that are kept on disk: the latest."""

_FORMAT = "winners-1"
_LIBRARIES = ("jax", "jaxlib", "numba", "numba-cuda", "warp-lang", "numpy")
_KNOWN_BY_NAME = frozenset({"bridge", "jax", "jaxlib", "numba", "numpy", "warp", *sys.stdlib_module_names})
"""Packages whose functions are those of their version, which is part of the key."""


class Winner(msgspec.Struct, frozen=True, kw_only=True):
    """The fastest right backend for one call on one kind of device.

    Attributes:
        operator: Its name.
        platform: JAX's name of the platform.
        device_kind: See :func:`kind_of`.
        versions: Of the libraries that it was measured with.
        inputs: Dtype and shape of each argument, as text.
        outputs: Alike, of each result.
        parameters: Names and values of the keyword parameters, as text.
        key: Digest of all that a call must have in common with the measured one.
        backend: The winner.
        configuration: Its configuration, if it has any.
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
        """What names it in a call."""
        return self.backend if self.configuration is None else f"{self.backend}:{self.configuration}"


class Request(NamedTuple):
    """What tuning depends on in one call."""

    inputs: tuple[Any, ...]
    outputs: tuple[jax.ShapeDtypeStruct, ...]
    parameters: tuple[tuple[str, Any], ...]

    @classmethod
    def of(cls, args: Iterable[Any], outputs: tuple[jax.ShapeDtypeStruct, ...], parameters: Any) -> Request:
        """The request of a call with these arguments: arrays, tracers or anything with a shape and a dtype."""
        return cls(tuple((aval.shape, aval.dtype) for aval in map(jax.typeof, args)), outputs, parameters)

    def described(self) -> tuple[list[str], list[str], dict[str, str]]:
        """Inputs, outputs and parameters as text."""
        return (
            [f"{dtype}{list(shape)}" for shape, dtype in self.inputs],
            [f"{spec.dtype}{list(spec.shape)}" for spec in self.outputs],
            {name: repr(value) for name, value in self.parameters},
        )


class Found(NamedTuple):
    """By platform, the winners for a call, and what names them."""

    winners: Mapping[str, Winner]
    references: Mapping[str, str]


_NOTHING = Found(MappingProxyType({}), NO_WINNERS)


class _View:
    """What was found for one registry snapshot among one set of winners; both are never changed, but replaced."""

    def __init__(self, known: Mapping[str, Winner], snapshot: Snapshot):
        self.known, self.snapshot = known, snapshot
        self.contents: dict[str, str] = {}
        self.found: dict[Any, Found] = {}


class Winners:
    """The winners of one operator; thread-safe. Its folder is looked at once, at the first call that may need it."""

    def __init__(self, operator: str):
        self.operator = operator
        self._lock = threading.Lock()
        self._known: Mapping[str, Winner] | None = None
        self._view: _View | None = None

    def find(
        self,
        snapshot: Snapshot,
        args: Sequence[Any],
        outputs: tuple[jax.ShapeDtypeStruct, ...],
        parameters: tuple[tuple[str, Any], ...],
    ) -> Found:
        """The winners for a call on the devices of this process."""
        known = self._known
        if known is None:
            known = self._load()
        if not known:
            return _NOTHING
        view = self._view
        if view is None or view.known is not known or view.snapshot is not snapshot:
            self._view = view = _View(known, snapshot)
        request = Request.of(args, outputs, parameters)
        # 1, 1.0 and True are equal, yet not the same parameter.
        asked = (request, tuple(type(value) for _, value in parameters))
        found = view.found.get(asked)
        if found is None:
            found = view.found[asked] = self._search(view, request)
        return found

    def _search(self, view: _View, request: Request) -> Found:
        winners = {}
        for platform in sorted({winner.platform for winner in view.known.values()} & view.snapshot.kernels.keys()):
            # Where a traced call will run is not known: a winner has to be that of every kind of device.
            kinds = _kinds(platform)
            keys = [self._key(view.snapshot, platform, kind, request, view.contents) for kind in sorted(kinds)]
            answers = [view.known[key] for key in keys if key in view.known]
            if kinds and len(answers) == len(kinds) and len({answer.reference for answer in answers}) == 1:
                winners[platform] = answers[0]
        return Found(winners, {platform: winner.reference for platform, winner in winners.items()})

    def key(self, snapshot: Snapshot, platform: str, device_kind: str, request: Request) -> str:
        """What a call must have in common with a measured one; of this process only, if it starts with
        :data:`bridge.source.content.PROCESS_LOCAL`."""
        return self._key(snapshot, platform, device_kind, request, {})

    def _key(
        self, snapshot: Snapshot, platform: str, device_kind: str, request: Request, contents: dict[str, str]
    ) -> str:
        if platform not in contents:
            kernels = [(each.reference, each.generator, each.options) for each in candidates(snapshot, platform)]
            contents[platform] = content_of(sorted(kernels, key=lambda kernel: kernel[0]))
        chosen = snapshot.standings[platform] == CHOSEN
        parts = [
            self.operator,
            platform,
            device_kind,
            versions(),
            request.described()[:2],
            content_of(request.parameters),
            contents[platform],
            [snapshot.defaults[platform], chosen],
        ]
        digest = hashlib.sha256(msgspec.json.encode(parts, order="deterministic")).hexdigest()
        local = any(isinstance(part, str) and part.startswith(PROCESS_LOCAL) for part in parts[5:7])
        return f"{PROCESS_LOCAL}-{digest}" if local else digest

    def remember(self, winner: Winner) -> None:
        """Makes later calls use a winner, those of other processes too if its key says that they can."""
        self._change(lambda known: {**known, winner.key: winner})
        if not winner.is_portable:
            return
        folder = self._folder()
        try:
            folder.mkdir(parents=True, exist_ok=True)
            _replace(folder / f"{winner.key}.json", msgspec.json.format(msgspec.json.encode(winner)))
            _prune(folder)
        except OSError as error:
            _warn(f"{winner.operator}: the winner of tuning counts in this process only: {error}. Set {VARIABLE}.")

    def overrule(self, platform: str) -> None:
        """Drops from memory what this process knows of a platform, whose default was set by hand."""
        if self._known:
            self._change(lambda known: {key: each for key, each in known.items() if each.platform != platform})

    def forget(self) -> None:
        """Drops all winners, also on disk."""
        with self._lock:
            self._known = {}
            folder = self._folder()
            with contextlib.suppress(FileNotFoundError):
                for name in os.listdir(folder):
                    (folder / name).unlink(missing_ok=True)

    def _change(self, change: Any) -> None:
        known = self._load() if self._known is None else self._known
        with self._lock:
            known = known if self._known is None else self._known
            self._known = MappingProxyType(change(known))

    def _folder(self) -> Path:
        root = os.environ.get(VARIABLE) or platformdirs.user_cache_path("kernel-bridge", appauthor=False)
        readable = re.sub(r"[^A-Za-z0-9_.-]+", "_", self.operator).strip(".")[:40]
        return Path(root, _FORMAT, f"{readable}-{hashlib.sha256(self.operator.encode()).hexdigest()[:12]}")

    def _load(self) -> Mapping[str, Winner]:
        with self._lock:
            if self._known is None:
                self._known = self._read()
            return self._known

    def _read(self) -> Mapping[str, Winner]:
        folder = self._folder()
        known, damaged = {}, []
        try:
            names = [name for name in sorted(os.listdir(folder)) if name.endswith(".json")]
        except FileNotFoundError:
            return {}
        except OSError as error:
            _warn(f"{self.operator}: the winners of earlier tunings cannot be read: {error}. Set {VARIABLE}.")
            return {}
        for name in names:
            try:
                winner = msgspec.json.decode((folder / name).read_bytes(), type=Winner)
            except FileNotFoundError:  # dropped by another process at this moment
                continue
            except (OSError, ValueError, msgspec.MsgspecError):
                damaged.append(name)
                continue
            if winner.versions == versions() and winner.operator == self.operator and f"{winner.key}.json" == name:
                known[winner.key] = winner
        if damaged:
            _warn(
                f"{self.operator}: {len(damaged)} of {len(names)} remembered winners in {folder} are damaged and do "
                f"not count ({damaged[0]}). Tune again, or drop them with forget()."
            )
        return MappingProxyType(known)


def _replace(path: Path, content: bytes) -> None:
    """Writes a file so that readers see the old or the new one, never a part."""
    handle, temporary = tempfile.mkstemp(dir=path.parent, suffix=".tmp")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def _prune(folder: Path) -> None:
    entries = [entry for entry in os.scandir(folder) if entry.name.endswith(".json")]
    if len(entries) > KEPT:
        with contextlib.suppress(FileNotFoundError):  # pruned by another process
            for entry in sorted(entries, key=lambda entry: entry.stat().st_mtime)[:-KEPT]:
                Path(entry.path).unlink(missing_ok=True)


def _warn(message: str) -> None:
    warnings.warn(message, RuntimeWarning, stacklevel=2)


def kind_of(device: jax.Device) -> str:
    """The kind of a device: what makes another one as fast. JAX knows no kinds of CPUs."""
    return _cpu_kind() if device.platform == "cpu" else str(device.device_kind)


def _kinds(platform: str) -> frozenset[str]:
    try:
        return frozenset(map(kind_of, jax.local_devices(backend=platform)))
    except RuntimeError:  # this process has no such devices
        return frozenset()


@functools.cache
def _cpu_kind() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    name = names[0] if names else machine.processor() or machine.machine()
    return f"{name}, {numba.config.NUMBA_NUM_THREADS} threads"


@functools.cache
def versions() -> dict[str, str]:
    """Of what takes part in a call. Those installed, for it may not be imported yet when a winner is looked for."""
    from bridge import __version__

    found = {"kernel-bridge": __version__, "python": machine.python_version()}
    for name in _LIBRARIES:
        with contextlib.suppress(metadata.PackageNotFoundError):
            found[name] = metadata.version(name)
    return found


def content_of(value: Any) -> str:
    """A digest of values and functions, as :func:`bridge.source.content.function_digest`; but functions of libraries count by
    name, for generators call far more of them than kernels do."""
    walk = _Content()
    walk.feed(value)
    digest = walk.sha.hexdigest()
    return digest if walk.portable else f"{PROCESS_LOCAL}-{digest}"


class _Content(ContentWalk):
    def _feed_object(self, value: Any) -> None:
        if _is_known_by_name(value):
            self._tag("library", value.__module__, value.__qualname__)
        elif isinstance(value, functools.partial):
            self._sequence("partial", (value.func, value.args, value.keywords))
        elif isinstance(value, types.MethodType):
            self._sequence("method", (value.__func__, value.__self__))
        elif isinstance(value, jax.ShapeDtypeStruct):
            self._sequence("spec", (value.shape, value.dtype))
        elif dataclasses.is_dataclass(value) and not isinstance(value, type):
            fields = [(field.name, getattr(value, field.name)) for field in dataclasses.fields(value)]
            self._sequence(f"{type(value).__module__}.{type(value).__qualname__}", fields)
        elif (digest := _warp_digest(value)) is not None:
            self._tag("warp", digest)
        elif _is_wrapper(value):
            self._sequence("wrapper", (type(value).__qualname__, value.__wrapped__))
        else:
            super()._feed_object(value)

    def _module_attributes(self, module: types.ModuleType, names: Iterable[str]) -> None:
        if module.__name__.partition(".")[0] not in _KNOWN_BY_NAME:
            super()._module_attributes(module, names)


def _is_known_by_name(value: Any) -> bool:
    """Whether a function is what its name leads to in a library; one that a library made at run time is not."""
    module, name = getattr(value, "__module__", None), getattr(value, "__qualname__", None)
    if not callable(value) or not isinstance(module, str) or not isinstance(name, str):
        return False
    if module.partition(".")[0] not in _KNOWN_BY_NAME:
        return False
    found: Any = sys.modules.get(module)
    for part in name.split("."):
        found = getattr(found, part, None)
    return found is value


def _is_wrapper(value: Any) -> bool:
    """Whether it is a function that ``jax.jit``, ``functools.cache`` or the like made of another one."""
    wrapped = getattr(value, "__wrapped__", None)
    return (
        isinstance(wrapped, types.FunctionType)
        and not isinstance(value, types.FunctionType)
        and not hasattr(value, "py_func")
    )


def _warp_digest(value: Any) -> str | None:
    warp = sys.modules.get("warp")
    if warp is None or not isinstance(value, warp.Kernel):
        return None
    from bridge.languages.warp.compiled import digest_of

    try:
        return digest_of(value, "cpu", None)
    except BridgeError:
        return None
