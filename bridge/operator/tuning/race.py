"""The candidates for one call in, the fastest right one out.

A candidate is checked before it is timed, against the reference and on the very arguments of the call: one that is
wrong cannot win. Candidates are timed in turn, round by round, so that whatever else the machine does meets all of
them.
"""

from __future__ import annotations

import contextlib
import enum
import math
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from bridge.errors import BackendError, SignatureError
from bridge.operator.choice.candidates import Candidate, candidate, candidates
from bridge.operator.choice.registry import Snapshot, canonical_platform
from bridge.operator.call.operator_call import OperatorCall
from bridge.operator.rules.derivatives import apply
from bridge.operator.tuning.winners import Request, Winner, Winners, kind_of, versions

REFERENCE = "jnp"
"""The backend that the others are compared with."""

ROUNDS = 40
LEAST_ROUNDS = 7
LIMIT_S = 1.0
"""Seconds after which a candidate is timed no more, once it has the least number of rounds."""

SAMPLE_S = 1e-3
"""How long the calls of one sample take together, at least."""

HOPELESS = 10
"""A first call so many times slower than the fastest one decides: no rounds are spent on it."""

MOST_CALLS = 1 << 16

LOOPED_BELOW_S = 100e-6
"""Where the fastest call takes less, calls are made in a loop inside one program: the dispatch of programs, which takes
microseconds on a CPU and tens of them on a GPU, would hide their differences."""

# Of no type that mypy knows.
_limits: Any = jnp.finfo

_ROUNDOFFS = 8
_PER_TERM = 4
_OUTLIERS = 1 / 16
_UNEVEN = 64


class Status(enum.StrEnum):
    """How a candidate came out."""

    CHOSEN = "chosen"
    SLOWER = "slower"
    WRONG = "wrong"
    FAILED = "failed"


@dataclass(frozen=True)
class Trial:
    """How one candidate came out.

    Attributes:
        backend: Its name.
        configuration: The name of its configuration, if it has any.
        status: Chosen, or why not.
        microseconds: Median time of a call; None if it was not timed.
        p20: 20th percentile, in microseconds.
        p80: 80th percentile, in microseconds.
        reason: What is wrong or failed, or why it was chosen although it is not the fastest.
    """

    backend: str
    configuration: str | None
    status: Status
    microseconds: float | None = None
    p20: float | None = None
    p80: float | None = None
    reason: str | None = None

    @property
    def reference(self) -> str:
        """What names it in a call."""
        return self.backend if self.configuration is None else f"{self.backend}:{self.configuration}"

    def __str__(self) -> str:
        times = "" if self.microseconds is None else f" {self.microseconds:.4g} us ({self.p20:.4g}-{self.p80:.4g})"
        return f"{self.reference}: {self.status}{times}" + (f", {self.reason}" if self.reason else "")


@dataclass(frozen=True)
class Tuning:
    """The outcome of :meth:`bridge.XLACustomKernel.tune`.

    Attributes:
        operator: Its name.
        platform: Where it was measured.
        device_kind: On what.
        compared_with: The backend whose results the others have to agree with.
        proven: Whether that is the reference, ``"jnp"``; otherwise it is only the first that was registered, and
            agreement is all that was shown.
        method: What was timed: ``"calls"`` one by one, or calls ``"in a loop"`` inside one program.
        remembered: Whether other processes find the winner.
        trials: One for each candidate, in order of registration.
    """

    operator: str
    platform: str
    device_kind: str
    compared_with: str
    proven: bool
    method: str
    remembered: bool
    trials: tuple[Trial, ...]

    @property
    def chosen(self) -> Trial:
        """The winner."""
        return next(trial for trial in self.trials if trial.status is Status.CHOSEN)

    def __str__(self) -> str:
        compared = f"compared with {self.compared_with}"
        if not self.proven:
            compared += ", the first registered: agreement is all that was shown"
        kept = "remembered" if self.remembered else "remembered by this process only"
        head = f"{self.operator} on {self.platform} ({self.device_kind}), {self.method}, {compared}; {kept}"
        return "\n".join([head, *(f"  {trial}" for trial in self.trials)])


@dataclass
class _Entrant:
    """A candidate on its way to a trial: either it has a problem, or a program and results."""

    candidate: Candidate
    program: Callable[..., Any] | None = None
    results: list[Any] = field(default_factory=list)
    problem: tuple[Status, str] | None = None

    @contextlib.contextmanager
    def attempt(self) -> Iterator[None]:
        """Notes a failure: a kernel may fail in any way, which makes it a candidate that failed."""
        try:
            yield
        except Exception as error:
            lines = str(error).strip().splitlines()
            reason = f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__
            self.problem = Status.FAILED, reason


class _Clock:
    """Takes the samples of one candidate: ``run`` makes a number of calls and waits for all of their results."""

    def __init__(self, run: Callable[[int], Any]):
        self._run = run
        self.calls = 1
        self.samples_s: list[float] = []

    def sample(self) -> float:
        """Seconds of a call, the mean of those in one sample."""
        start = time.perf_counter()
        self._run(self.calls)
        return (time.perf_counter() - start) / self.calls

    def calibrate(self) -> float:
        """Finds out how many calls make a sample; seconds of a call."""
        # The least of a few, for one sample that another process interrupts would end it too early.
        while (call_s := self.least(3)) * self.calls < SAMPLE_S and self.calls < MOST_CALLS:
            self.calls *= 2
        return call_s

    def least(self, count: int) -> float:
        """The least of some samples, which do not count otherwise."""
        return min(self.sample() for _ in range(count))

    def is_done(self, hopeless: bool) -> bool:
        """Whether there are enough samples."""
        if hopeless:
            return bool(self.samples_s)
        return len(self.samples_s) >= LEAST_ROUNDS and sum(self.samples_s) * self.calls >= LIMIT_S


def device_of(args: Sequence[Any], name: str) -> tuple[list[jax.Array], jax.Device]:
    """The arguments as arrays on a device, and that device.

    Raises:
        SignatureError: An argument is traced or no array, or they lie on several devices.
    """
    for index, arg in enumerate(args):
        if isinstance(arg, jax.core.Tracer):
            raise SignatureError(
                f"{name}: argument {index} of tune is a traced value ({jax.typeof(arg)}), but tuning runs and times "
                "the kernels. Call tune outside of jax.jit and other transformations, on arrays; the traced calls of "
                "the same shapes use what it finds."
            )
        if isinstance(arg, jax.ShapeDtypeStruct):
            raise SignatureError(
                f"{name}: argument {index} of tune is {arg}, expected an array: tuning runs the kernels."
            )
    arrays = [arg if isinstance(arg, jax.Array) else jnp.asarray(arg) for arg in args]
    devices = {device for array in arrays or [jnp.zeros(())] for device in array.devices()}
    if len(devices) != 1:
        raise SignatureError(
            f"{name}: the arguments of tune lie on {len(devices)} devices ({', '.join(map(str, devices))}), expected "
            "one. Tune on the part that one device has."
        )
    return arrays, devices.pop()


def entrants(
    snapshot: Snapshot, platform: str, backends: Iterable[str] | None, name: str
) -> tuple[tuple[Candidate, ...], Candidate]:
    """What to try on a platform, and what to compare it with.

    Args:
        snapshot: What is registered now.
        platform: Where the arguments are.
        backends: Backends, or ``"backend:configuration"``; None for everything.
        name: The operator, for errors.

    Raises:
        BackendError: Nothing is registered for the platform, or not what was asked for.
    """
    everything = candidates(snapshot, platform)
    if not everything:
        raise BackendError(
            f"{name}: no kernel for platform {platform!r}, where the arguments of tune are (registered: "
            f"{snapshot.describe()}). Register one with def_kernel, or put the arguments on another device."
        )
    reference = candidate(snapshot, platform, REFERENCE) or everything[0]
    wanted = None if backends is None else list(backends) if _is_listing(backends) else [backends]
    if wanted is None:
        return everything, reference
    known = {each.backend for each in everything} | {each.reference for each in everything}
    unknown = [backend for backend in wanted if backend not in known]
    if unknown or not wanted:
        raise BackendError(
            f"{name}: tune was asked for {', '.join(map(repr, unknown)) or 'no backend'}, expected some of those that "
            f"are registered for {platform!r} (registered: {snapshot.describe()})."
        )
    return tuple(each for each in everything if {each.backend, each.reference} & set(wanted)), reference


def winner_of(
    winners: Winners, snapshot: Snapshot, device: jax.Device, request: Request, trials: Sequence[Trial]
) -> Winner:
    """What is to be remembered of the trials of a call."""
    chosen = next(trial for trial in trials if trial.status is Status.CHOSEN)
    platform, device_kind = canonical_platform(device.platform, winners.operator), kind_of(device)
    inputs, outputs, parameters = request.described()
    assert chosen.microseconds is not None
    return Winner(
        operator=winners.operator,
        platform=platform,
        device_kind=device_kind,
        versions=versions(),
        inputs=inputs,
        outputs=outputs,
        parameters=parameters,
        key=winners.key(snapshot, platform, device_kind, request),
        backend=chosen.backend,
        configuration=chosen.configuration,
        microseconds=chosen.microseconds,
        tuned_at=datetime.now(UTC),
    )


def _is_listing(names: Any) -> bool:
    return isinstance(names, Iterable) and not isinstance(names, str)


def race(
    call: OperatorCall,
    tried: Sequence[Candidate],
    reference: Candidate,
    default: Candidate | None,
    args: list[jax.Array],
    rtol: float | None,
) -> tuple[str, tuple[Trial, ...]]:
    """Checks and times the candidates.

    Args:
        call: The call, with any choice.
        tried: What may win.
        reference: Whose results are right.
        default: What is chosen if no candidate is clearly faster.
        args: Arrays on the device.
        rtol: Replaces the relative error that :func:`disagreement` allows.

    Returns:
        The method of timing, and the trials.

    Raises:
        BackendError: The reference failed, or no candidate is right.
    """
    before = [np.array(arg) for arg in args]
    truth = _prepare(call, reference, args)
    if truth.problem is not None:
        raise BackendError(
            f"{call.name}: {reference.reference}, which the others are compared with, failed: {truth.problem[1]}"
        )
    # What an element adds up is mostly its share of the largest argument; shares are uneven in a sparse product.
    results = min((math.prod(spec.shape) for spec in call.outputs), default=1)
    terms = _UNEVEN * max(1, max((array.size for array in before), default=1) // max(1, results))
    checked = []
    # The results of all are kept until all are checked: a kernel that writes nothing must not find a right answer in
    # memory that was freed.
    for each in tried:
        entrant = truth if each == reference else _prepare(call, each, args)
        if entrant.problem is None and entrant is not truth:
            wrong = disagreement(entrant.results, truth.results, terms, rtol)
            entrant.problem = None if wrong is None else (Status.WRONG, wrong)
        if any(not _same(arg, old) for arg, old in zip(args, before, strict=True)):
            raise BackendError(
                f"{call.name}: {each.reference} changed its inputs, which belong to the caller; their contents "
                "are lost. Give the kernel an output of its own, or an alias."
            )
        checked.append(entrant)
    right = [entrant for entrant in checked if entrant.problem is None]
    method, samples_s = _time(call, right, args) if right else ("calls", {})
    if not samples_s:
        problems = "; ".join(f"{e.candidate.reference}: {': '.join(e.problem)}" for e in checked if e.problem)
        raise BackendError(f"{call.name}: no candidate gives a right result ({problems}).")
    return method, _judge(checked, samples_s, default)


def _prepare(call: OperatorCall, candidate: Candidate, args: list[jax.Array]) -> _Entrant:
    """Compiles a candidate and runs it once."""
    run = replace(call, choice=(candidate,))
    entrant = _Entrant(candidate)
    with entrant.attempt():
        entrant.program = jax.jit(lambda *arrays: apply(run, *arrays)).lower(*args).compile()
        entrant.results = list(jax.block_until_ready(entrant.program(*args)))
    return entrant


def _time(call: OperatorCall, right: list[_Entrant], args: list[jax.Array]) -> tuple[str, dict[Candidate, list[float]]]:
    """Times candidates in turn: the method, and for each that did not fail the seconds of a call."""
    clocks = {entrant.candidate: _Clock(_one_by_one(entrant.program, args)) for entrant in right}
    first_s = {}
    for entrant in right:
        with entrant.attempt():
            first_s[entrant.candidate] = clocks[entrant.candidate].least(3)
    looped = min(first_s.values(), default=math.inf) < LOOPED_BELOW_S and _can_be_looped(call, args)
    for entrant in right:
        with entrant.attempt():
            if looped:
                run = _in_a_loop(replace(call, choice=(entrant.candidate,)), args)
                clocks[entrant.candidate] = _Clock(run)
            first_s[entrant.candidate] = clocks[entrant.candidate].calibrate()
    running = [entrant for entrant in right if entrant.problem is None]
    fastest = min((first_s[entrant.candidate] for entrant in running), default=0.0)
    for number in range(ROUNDS):
        shift = number % max(1, len(running))
        for entrant in running[shift:] + running[:shift]:
            clock = clocks[entrant.candidate]
            if entrant.problem is None and not clock.is_done(first_s[entrant.candidate] > HOPELESS * fastest):
                with entrant.attempt():
                    clock.samples_s.append(clock.sample())
    samples_s = {entrant.candidate: clocks[entrant.candidate].samples_s for entrant in running if not entrant.problem}
    return "in a loop" if looped else "calls", samples_s


def _one_by_one(program: Any, args: list[jax.Array]) -> Callable[[int], Any]:
    def sample(calls: int) -> None:
        for _ in range(calls):
            jax.block_until_ready(program(*args))

    return sample


def _in_a_loop(call: OperatorCall, args: list[jax.Array]) -> Callable[[int], Any]:
    """Calls one after the other in one program.

    Between two calls, an element of the first result takes the place of one of the first argument, if the number of the
    call is ``never``, which no compiler knows not to happen: so no call can start before the one before has ended, be
    moved out of the loop or be left out, and yet the arguments stay what they are, for a kernel may depend on that. The
    barrier keeps XLA from computing only that element.
    """

    def run(calls: Any, never: Any, *arrays: Any) -> list[Any]:
        def body(number: Any, carried: tuple[list[Any], list[Any]]) -> tuple[list[Any], list[Any]]:
            given, _ = carried
            given, results = jax.lax.optimization_barrier((given, apply(call, *given)))
            place = (0,) * given[0].ndim
            other = results[0].reshape(-1)[0]
            other = (other.real if jnp.iscomplexobj(other) else other).astype(given[0].dtype)
            changed = given[0].at[place].set(jnp.where(number == never, other, given[0][place]))
            return [changed, *given[1:]], results

        empty = [jnp.zeros(spec.shape, spec.dtype) for spec in call.outputs]
        carried: tuple[list[Any], list[Any]] = jax.lax.fori_loop(0, calls, body, (list(arrays), empty))
        return carried[1]

    never = np.int32(-1)
    program = jax.jit(run).lower(np.int32(1), never, *args).compile()
    return lambda calls: jax.block_until_ready(program(np.int32(calls), never, *args))


def _can_be_looped(call: OperatorCall, args: list[jax.Array]) -> bool:
    """Whether there is an element to hand on, and the effects of the call, if it has any, may be in a loop."""
    return not call.has_side_effect and bool(args) and args[0].size > 0 and math.prod(call.outputs[0].shape) > 0


def _judge(
    checked: list[_Entrant], samples_s: dict[Candidate, list[float]], default: Candidate | None
) -> tuple[Trial, ...]:
    """A trial of each entrant: the fastest right one is chosen, but the default where none is clearly faster."""
    times = {each: [float(t) for t in np.quantile(taken, (0.5, 0.2, 0.8)) * 1e6] for each, taken in samples_s.items()}
    fastest = min(times, key=lambda each: times[each][0])
    chosen = fastest
    if default is not None and default in times and times[default][1] <= times[fastest][2]:
        chosen = default
    trials = []
    for entrant in checked:
        each = entrant.candidate
        if entrant.problem is not None:
            trials.append(Trial(each.backend, each.configuration, entrant.problem[0], reason=entrant.problem[1]))
            continue
        reason = None
        if chosen != fastest and each == chosen:
            reason = f"the default: {fastest.reference} is not clearly faster"
        elif chosen != fastest and each == fastest:
            reason = "not clearly faster than the default"
        status = Status.CHOSEN if each == chosen else Status.SLOWER
        median, p20, p80 = times[each]
        trials.append(Trial(each.backend, each.configuration, status, median, p20, p80, reason))
    return tuple(trials)


def disagreement(
    results: Sequence[Any], references: Sequence[Any], terms: int, rtol: float | None = None
) -> str | None:
    """What is wrong with results, or None.

    Integers and booleans have to be equal, NaN and infinities at the same places. Other numbers may differ from the
    reference ``r`` by ``e*|r|`` with ``e = 8 u + 4 v sqrt(terms)``: ``u`` is the unit roundoff of the result's dtype,
    and ``v`` that of float32 if it is less, for narrow dtypes are summed in a wider one. Two right results both have
    rounding errors, and those of a sum of ``terms`` numbers grow with the square root of their count. In one of 16
    elements terms may have cancelled; the median of ``|r|`` then stands for ``|r|``. Differences below the smallest
    normal number do not count.

    Args:
        results: Arrays.
        references: What they should be.
        terms: The most terms that an element may be a sum of.
        rtol: Replaces ``e``.
    """
    for index, (result, reference) in enumerate(zip(results, references, strict=True)):
        wrong = _difference(np.asarray(result), np.asarray(reference), terms, rtol)
        if wrong is not None:
            return f"result {index}: {wrong}"
    return None


def _difference(got: Any, expected: Any, terms: int, rtol: float | None) -> str | None:
    if got.shape != expected.shape or got.dtype != expected.dtype:
        return f"{got.dtype}{list(got.shape)}, expected {expected.dtype}{list(expected.shape)}"
    if not jnp.issubdtype(got.dtype, jnp.inexact):
        return _worst(got != expected, got, expected, "differs")
    info = _limits(got.dtype)
    unit = float(info.eps) / 2
    if rtol is None:
        rtol = _ROUNDOFFS * unit + _PER_TERM * min(unit, 2.0**-24) * math.sqrt(terms)
    wide = np.complex128 if jnp.issubdtype(got.dtype, jnp.complexfloating) else np.float64
    got, expected = got.astype(wide), expected.astype(wide)
    for part in (np.real, np.imag) if wide is np.complex128 else (np.asarray,):
        ours, theirs = part(got), part(expected)
        special = (np.isnan(ours) != np.isnan(theirs)) | ((np.isinf(ours) | np.isinf(theirs)) & (ours != theirs))
        # NaN is not equal to itself; where both are NaN, nothing differs.
        special &= ~(np.isnan(ours) & np.isnan(theirs))
        if special.any():
            return _worst(special, got, expected, "NaN or infinity on one side")
    finite = np.isfinite(got) & np.isfinite(expected)
    error = np.abs(np.where(finite, got, 0) - np.where(finite, expected, 0))
    size = np.abs(np.where(finite, expected, 0))
    usual = float(np.median(size[finite])) if finite.any() else 0.0
    tiny = float(info.smallest_normal)
    outliers = error > rtol * size + tiny
    far = error > rtol * np.maximum(size, usual) + tiny
    wrong = outliers if outliers.sum() > _OUTLIERS * got.size else far
    return _worst(wrong, got, expected, f"relative error above {rtol:.2g}", error / np.maximum(size, tiny))


def _worst(wrong: Any, got: Any, expected: Any, what: str, error: Any = None) -> str | None:
    if not wrong.any():
        return None
    place = np.unravel_index(np.argmax(np.where(wrong, 1 if error is None else error, -1)), got.shape)
    where = f"[{', '.join(map(str, place))}]" if got.ndim else ""
    return (
        f"{what} at {where or 'the only element'}: {got[place]}, expected {expected[place]} ({int(wrong.sum())} of "
        f"{got.size} elements)"
    )


def _same(array: jax.Array, old: Any) -> bool:
    return bool(np.asarray(array).tobytes() == old.tobytes())
