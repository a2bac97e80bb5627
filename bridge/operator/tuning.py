"""Finds the fastest right backend for one call by measurement, for :meth:`bridge.XLACustomKernel.tune`.

A candidate is checked before it is timed, against the reference and on the very arguments of the call, so a wrong one
cannot win. The candidates are timed in turn, round by round: a disturbance by other processes meets all of them.
"""

from __future__ import annotations

import contextlib
import functools
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from bridge.debug.agreement import REFERENCE_BACKEND, disagreement
from bridge.errors import BackendError, SignatureError
from bridge.operator.choices import Question, Trial, Tuning
from bridge.operator.derivatives import run
from bridge.operator.operator_call import Candidate, OperatorCall
from bridge.operator.registry import Snapshot, canonical_platform

ROUNDS = 40
LEAST_ROUNDS = 7
LIMIT_S = 1.0
"""Seconds of samples after which a candidate is not timed any more, once it has the least number of rounds."""

SAMPLE_S = 1e-3
"""The least time that the calls of one sample take together."""

MOST_CALLS = 1 << 16


def device_of(args: Sequence[Any], name: str) -> tuple[list[jax.Array], jax.Device]:
    """The arguments as arrays on a device, and that device.

    Raises:
        SignatureError: An argument is traced or no array, or they lie on several devices.
    """
    for index, arg in enumerate(args):
        if isinstance(arg, jax.core.Tracer | jax.ShapeDtypeStruct):
            what = f"a traced value ({jax.typeof(arg)})" if isinstance(arg, jax.core.Tracer) else str(arg)
            raise SignatureError(
                f"{name}: argument {index} of tune is {what}, expected an array: tuning runs and times the kernels. "
                "Call tune outside of jax.jit and other transformations; the traced calls of the same shapes use what "
                "it finds."
            )
    arrays = [jnp.asarray(arg) for arg in args]
    devices = {device for array in arrays or [jnp.zeros(())] for device in array.devices()}
    if len(devices) != 1:
        raise SignatureError(
            f"{name}: the arguments of tune lie on {len(devices)} devices ({', '.join(map(str, devices))}), expected "
            "one. Tune on the part that one device has."
        )
    return arrays, devices.pop()


def measured(
    question: Question,
    snapshot: Snapshot,
    call: OperatorCall,
    device: jax.Device,
    args: Sequence[Any],
    backends: Iterable[str] | None = None,
    rtol: float | None = None,
) -> Tuning:
    """Checks and times the backends of an operator on a call.

    Args:
        question: The calls that the choice counts for.
        snapshot: The kernels that are registered now.
        call: The call, with any choice.
        device: The device to run on.
        args: Its arrays.
        backends: Backends, or ``"backend:configuration"``; None for everything.
        rtol: The relative tolerance of :mod:`bridge.debug.agreement`; None for its default.

    Raises:
        BackendError: See :func:`_entrants` and :func:`_race`.
    """
    platform = canonical_platform(device.platform, snapshot.name)
    tried, reference = _entrants(snapshot, platform, backends)
    default = snapshot.find(platform, snapshot.defaults[platform])
    arrays = [jax.device_put(arg, device) for arg in args]
    with jax.set_mesh(jax.sharding.Mesh([device], ("device",))):  # not the mesh of the user's block, if any
        trials = _race(call, tried, reference, default, arrays, rtol)
    chosen = next(trial.backend for trial in trials if trial.status == "chosen")
    return Tuning(question, platform, device.device_kind, chosen, reference.reference, trials)


def _entrants(
    snapshot: Snapshot, platform: str, backends: Iterable[str] | None
) -> tuple[tuple[Candidate, ...], Candidate]:
    """The candidates to try on a platform, and the one to compare them with.

    Raises:
        BackendError: The platform has no kernel, or none of the requested ones.
    """
    everything = snapshot.of(platform)
    if not everything:
        raise BackendError(
            f"{snapshot.name}: no kernel for platform {platform!r}, where the arguments of tune are (registered: "
            f"{snapshot.describe()}). Register one with def_kernel, or put the arguments on another device."
        )
    reference = snapshot.find(platform, REFERENCE_BACKEND) or everything[0]
    if backends is None:
        return everything, reference
    wanted = list(backends) if isinstance(backends, Iterable) and not isinstance(backends, str) else [backends]
    unknown = [name for name in wanted if not any(name in (each.backend, each.reference) for each in everything)]
    if unknown or not wanted:
        raise BackendError(
            f"{snapshot.name}: tune was asked for {', '.join(map(repr, unknown)) or 'no backend'}, expected some of "
            f"those that are registered for {platform!r} (registered: {snapshot.describe()})."
        )
    return tuple(each for each in everything if {each.backend, each.reference} & set(wanted)), reference


@dataclass
class _Entrant:
    """A candidate during the race. It has a problem, or a program and its results.

    Attributes:
        call: Makes one call, and does not wait for its results.
        calls: The number of calls of a sample.
        samples_s: Seconds of a call: for each sample, the mean over its calls.
    """

    candidate: Candidate
    results: list[Any] = field(default_factory=list)
    problem: tuple[str, str] | None = None
    call: Callable[[], Any] = field(init=False)
    calls: int = 1
    samples_s: list[float] = field(default_factory=list)

    @contextlib.contextmanager
    def attempt(self) -> Iterator[None]:
        """Records any exception as the problem of this candidate: a kernel may fail in any way."""
        try:
            yield
        except Exception as error:
            lines = str(error).strip().splitlines()
            self.problem = "failed", f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__

    def sample(self) -> float:
        start = time.perf_counter()
        for _ in range(self.calls):
            results = self.call()
        jax.block_until_ready(results)
        return (time.perf_counter() - start) / self.calls

    @property
    def is_done(self) -> bool:
        return len(self.samples_s) >= LEAST_ROUNDS and sum(self.samples_s) * self.calls >= LIMIT_S


def _race(
    call: OperatorCall,
    tried: Sequence[Candidate],
    reference: Candidate,
    default: Candidate | None,
    args: list[jax.Array],
    rtol: float | None,
) -> tuple[Trial, ...]:
    """Checks and times the candidates; returns a trial for each.

    Args:
        call: The call, with any choice.
        tried: The candidates that may win.
        reference: The candidate that gives the right results.
        default: The candidate to choose if no other one is clearly faster.
        args: Arrays on the device.
        rtol: See :func:`measured`.

    Raises:
        BackendError: The reference failed, no candidate is right, or a kernel changed its inputs.
    """
    before = [np.array(arg) for arg in args]
    truth = _prepare(call, reference, args)
    if truth.problem is not None:
        raise BackendError(
            f"{call.name}: {reference.reference}, which the others are compared with, failed: {truth.problem[1]}"
        )
    checked = []
    # All results are kept until all are checked. If memory were freed, a kernel that writes nothing could get memory
    # that still holds the right results.
    for each in tried:
        entrant = truth if each == reference else _prepare(call, each, args)
        if entrant.problem is None:
            wrong = disagreement(entrant.results, truth.results, [array.size for array in before], rtol)
            entrant.problem = None if wrong is None or entrant is truth else ("wrong", wrong)
        if any(np.asarray(arg).tobytes() != old.tobytes() for arg, old in zip(args, before, strict=True)):
            raise BackendError(
                f"{call.name}: {each.reference} changed its inputs, which belong to the caller; their contents "
                "are lost. Give the kernel an output of its own, or an alias."
            )
        checked.append(entrant)
    _time([entrant for entrant in checked if entrant.problem is None])
    if all(entrant.problem for entrant in checked):
        problems = "; ".join(f"{e.candidate.reference}: {': '.join(e.problem)}" for e in checked if e.problem)
        raise BackendError(f"{call.name}: no candidate gives a right result ({problems}).")
    return _judge(checked, default)


def _prepare(call: OperatorCall, candidate: Candidate, args: list[jax.Array]) -> _Entrant:
    """Compiles a candidate and runs it once."""
    own, entrant = replace(call, choice=(candidate,)), _Entrant(candidate)
    with entrant.attempt():
        program = jax.jit(lambda *arrays: run(own, *arrays)).lower(*args).compile()
        entrant.call = functools.partial(program, *args)
        entrant.results = list(jax.block_until_ready(entrant.call()))
    return entrant


def _time(right: list[_Entrant]) -> None:
    """Times candidates in turn."""
    for entrant in right:
        with entrant.attempt():
            # The least of a few samples counts: others may interrupt one.
            while min(entrant.sample() for _ in range(3)) * entrant.calls < SAMPLE_S and entrant.calls < MOST_CALLS:
                entrant.calls *= 2
    for number in range(ROUNDS):
        shift = number % max(1, len(right))
        for entrant in right[shift:] + right[:shift]:
            if entrant.problem is None and not entrant.is_done:
                with entrant.attempt():
                    entrant.samples_s.append(entrant.sample())


def _judge(checked: list[_Entrant], default: Candidate | None) -> tuple[Trial, ...]:
    """The trials of all entrants. The fastest right one is chosen, or the default if no other is clearly faster.

    A candidate is clearly faster if its 80th percentile is below the 20th percentile of the default.
    """
    times: dict[Candidate, Any] = {
        each.candidate: [float(t) for t in np.quantile(each.samples_s, (0.5, 0.2, 0.8)) * 1e6]
        for each in checked
        if each.problem is None
    }
    fastest = min(times, key=lambda each: times[each][0])
    chosen = fastest
    if default is not None and default in times and times[default][1] <= times[fastest][2]:
        chosen = default
    trials = []
    for entrant in checked:
        each = entrant.candidate
        status, reason = entrant.problem or ("chosen" if each == chosen else "slower", None)
        if each == fastest != chosen:
            reason = "not clearly faster than the default"
        median, p20, p80 = times.get(each, (None, None, None))
        trials.append(Trial(each.reference, status, median, p20, p80, reason))
    return tuple(trials)
