"""Remembers which backend won the tuning of a call, and finds the winners for later calls.

A winner counts only for calls like the one that was measured: same operator, kind of device, versions, shapes, dtypes,
parameters, candidates and default. All of these go into the key of the winner.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any, NamedTuple

import jax
import msgspec

from bridge.languages.language import Standing
from bridge.operator.choice.candidates import NO_WINNERS, candidates
from bridge.operator.choice.registry import Snapshot
from bridge.operator.static_parameters import Parameters
from bridge.operator.tuning.candidate_content import content_of
from bridge.operator.tuning.outcome import Outcome, Trial
from bridge.operator.tuning.toolchain import Toolchain
from bridge.operator.tuning.winner_files import Winner, WinnerFiles
from bridge.source.content import PROCESS_LOCAL


class Request(NamedTuple):
    """The types and parameters of a call, which its winner depends on.

    Attributes:
        inputs: Shape and dtype of each argument.
        outputs: Shape and dtype of each result.
        parameters: The keyword parameters.
    """

    inputs: tuple[Any, ...]
    outputs: tuple[jax.ShapeDtypeStruct, ...]
    parameters: Parameters

    @classmethod
    def of(cls, args: Iterable[Any], outputs: tuple[jax.ShapeDtypeStruct, ...], parameters: Parameters) -> Request:
        """The request of a call with these arguments: arrays, tracers or anything with a shape and a dtype."""
        return cls(tuple((aval.shape, aval.dtype) for aval in map(jax.typeof, args)), outputs, parameters)

    def described(self) -> tuple[list[str], list[str], dict[str, str]]:
        """Inputs, outputs and parameters as text."""
        return (
            [f"{dtype}{list(shape)}" for shape, dtype in self.inputs],
            [f"{spec.dtype}{list(spec.shape)}" for spec in self.outputs],
            {name: repr(value) for name, value in self.parameters.items},
        )


class FoundWinners(NamedTuple):
    """The winners for a call, by platform.

    Attributes:
        references: Their names in a call.
        reasons: When and how each was found.
    """

    references: Mapping[str, str]
    reasons: Mapping[str, str]


_NOTHING = FoundWinners(NO_WINNERS, MappingProxyType({}))


class _View:
    """Answers that hold for one registry snapshot and one set of winners. Both are replaced, never changed."""

    def __init__(self, known: Mapping[str, Winner], snapshot: Snapshot):
        self.known, self.snapshot = known, snapshot
        self.contents: dict[str, str] = {}
        self.found: dict[Request, FoundWinners] = {}


class Winners:
    """The winners of one operator. Thread-safe. It reads its folder once, at the first call that may need a winner.

    Args:
        operator: The name of the operator.
        toolchain: The kernel languages that it may use.

    Attributes:
        latest: The winners in memory, by key; None before the folder was read. A change replaces them.
    """

    def __init__(self, operator: str, toolchain: Toolchain):
        self.operator = operator
        self._toolchain = toolchain
        self._files = WinnerFiles(operator)
        self._lock = threading.Lock()
        self.latest: Mapping[str, Winner] | None = None
        self._view: _View | None = None

    def __getstate__(self) -> dict[str, Any]:
        """All but what counts in this process only: a copy may be for another one."""
        known = None if self.latest is None else {key: each for key, each in self.latest.items() if each.is_portable}
        return {**vars(self), "latest": known, "_lock": None, "_view": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, _lock=threading.Lock())

    def find(
        self,
        snapshot: Snapshot,
        args: Sequence[Any],
        outputs: tuple[jax.ShapeDtypeStruct, ...],
        parameters: Parameters,
    ) -> FoundWinners:
        """The winners for a call on the devices of this process."""
        known = self.known()
        if not known:
            return _NOTHING
        view = self._view
        if view is None or view.known is not known or view.snapshot is not snapshot:
            self._view = view = _View(known, snapshot)
        request = Request.of(args, outputs, parameters)
        found = view.found.get(request)
        if found is None:
            found = view.found[request] = self._search(view, request)
        return found

    def _search(self, view: _View, request: Request) -> FoundWinners:
        if jax.process_count() > 1:  # each process has its own winners, but all must trace the same program
            return _NOTHING
        winners = {}
        for platform in sorted({winner.platform for winner in view.known.values()} & view.snapshot.kernels.keys()):
            # It is not known on which device a traced call will run: all kinds of devices must have the same winner.
            kinds = self._toolchain.kinds(platform)
            keys = [self._key(view.snapshot, platform, kind, request, view.contents) for kind in sorted(kinds)]
            answers = [view.known[key] for key in keys if key in view.known]
            if kinds and len(answers) == len(kinds) and len({answer.reference for answer in answers}) == 1:
                winners[platform] = answers[0]
        references = {platform: winner.reference for platform, winner in winners.items()}
        return FoundWinners(references, {platform: str(winner) for platform, winner in winners.items()})

    def _key(
        self, snapshot: Snapshot, platform: str, device_kind: str, request: Request, contents: dict[str, str]
    ) -> str:
        """A digest of everything that a call must have in common with a measured one.

        It starts with :data:`bridge.source.content.PROCESS_LOCAL` if it is of no use in other processes. ``contents``
        keeps the digest of the candidates of each platform.
        """
        if platform not in contents:
            kernels = [(each.reference, each.generator, each.options.items) for each in candidates(snapshot, platform)]
            contents[platform] = content_of(sorted(kernels, key=lambda kernel: kernel[0]), self._toolchain)
        chosen = snapshot.standings[platform] is Standing.CHOSEN
        parameters = content_of(request.parameters.items, self._toolchain)
        parts = [
            self.operator,
            platform,
            device_kind,
            self._toolchain.versions(),
            request.described()[:2],
            parameters,
            contents[platform],
            [snapshot.defaults[platform], chosen],
        ]
        digest = hashlib.sha256(msgspec.json.encode(parts, order="deterministic")).hexdigest()
        local = any(content.startswith(PROCESS_LOCAL) for content in (parameters, contents[platform]))
        return f"{PROCESS_LOCAL}-{digest}" if local else digest

    def winner(
        self, snapshot: Snapshot, platform: str, device_kind: str, request: Request, trials: Sequence[Trial]
    ) -> Winner:
        """The winner to remember for a call.

        Args:
            snapshot: The kernels that took part.
            platform: JAX's name of the platform.
            device_kind: The kind of device that it was measured on.
            request: The call.
            trials: The trials, one of which won.
        """
        chosen = next(trial for trial in trials if trial.status is Outcome.CHOSEN)
        assert chosen.microseconds is not None
        inputs, outputs, parameters = request.described()
        return Winner(
            operator=self.operator,
            platform=platform,
            device_kind=device_kind,
            versions=self._toolchain.versions(),
            inputs=inputs,
            outputs=outputs,
            parameters=parameters,
            key=self._key(snapshot, platform, device_kind, request, {}),
            backend=chosen.backend,
            configuration=chosen.configuration,
            microseconds=chosen.microseconds,
            tuned_at=datetime.now(UTC),
        )

    def remember(self, winner: Winner) -> None:
        """Makes later calls use a winner, also in other processes if its key says that they can."""
        self._change(lambda known: {**known, winner.key: winner})
        if winner.is_portable:
            self._files.write(winner)

    def overrule(self, platform: str) -> None:
        """Drops the winners of a platform from memory, because the user has set its default."""
        if self.latest:
            self._change(lambda known: {key: each for key, each in known.items() if each.platform != platform})

    def forget(self) -> None:
        """Drops all winners, also on disk."""
        with self._lock:
            self.latest = {}
            self._files.drop()

    def known(self) -> Mapping[str, Winner]:
        """All winners that may count in this process, by key."""
        if self.latest is not None:
            return self.latest
        with self._lock:
            if self.latest is None:
                self.latest = self._files.read(self._toolchain.versions())
            return self.latest

    def _change(self, change: Callable[[Mapping[str, Winner]], Mapping[str, Winner]]) -> None:
        self.known()
        with self._lock:
            self.latest = MappingProxyType(dict(change(self.latest or {})))
