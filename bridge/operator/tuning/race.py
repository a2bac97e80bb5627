"""Races the candidates for one call: checks that they are right, times them, and chooses the fastest.

A candidate is checked before it is timed, against the reference and on the very arguments of the call, so a wrong one
cannot win. The candidates are timed in turn, round by round: a disturbance by other processes meets all of them.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import jax
import numpy as np

from bridge.agreement import disagreement
from bridge.errors import BackendError
from bridge.operator.call.operator_call import OperatorCall
from bridge.operator.choice.candidates import Candidate
from bridge.operator.rules.application import apply
from bridge.operator.tuning.clock import Clock, can_be_looped, in_a_loop, one_by_one
from bridge.operator.tuning.outcome import Outcome, Trial

ROUNDS = 40

HOPELESS = 10
"""A candidate whose first call takes this many times as long as the fastest one gets a single round."""

LOOPED_BELOW_S = 100e-6
"""If the fastest call takes less, calls are made in a loop inside one program. Dispatching a program takes microseconds
on a CPU and tens of them on a GPU, which would hide the differences between candidates."""


@dataclass
class _Entrant:
    """A candidate during the race. It has a problem, or a program and its results."""

    candidate: Candidate
    program: Callable[..., Any] | None = None
    results: list[Any] = field(default_factory=list)
    problem: tuple[Outcome, str] | None = None

    @contextlib.contextmanager
    def attempt(self) -> Iterator[None]:
        """Records any exception as the problem of this candidate: a kernel may fail in any way."""
        try:
            yield
        except Exception as error:
            lines = str(error).strip().splitlines()
            reason = f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__
            self.problem = Outcome.FAILED, reason


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
        tried: The candidates that may win.
        reference: The candidate that gives the right results.
        default: The candidate to choose if no other one is clearly faster.
        args: Arrays on the device.
        rtol: The relative tolerance of :mod:`bridge.agreement`; None for its default.

    Returns:
        The method of timing (see :class:`~bridge.operator.tuning.outcome.Tuning`), and the trials.

    Raises:
        BackendError: The reference failed, no candidate is right, or a kernel changed its inputs.
    """
    before = [np.array(arg) for arg in args]
    truth = _prepare(call, reference, args)
    if truth.problem is not None:
        raise BackendError(
            f"{call.name}: {reference.reference}, which the others are compared with, failed: {truth.problem[1]}"
        )
    sizes = [array.size for array in before]
    checked = []
    # All results are kept until all are checked. If memory were freed, a kernel that writes nothing could get memory
    # that still holds the right results.
    for each in tried:
        entrant = truth if each == reference else _prepare(call, each, args)
        if entrant.problem is None and entrant is not truth:
            wrong = disagreement(entrant.results, truth.results, sizes, rtol)
            entrant.problem = None if wrong is None else (Outcome.WRONG, wrong)
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
    """Times candidates in turn. Returns the method, and the seconds of a call for each candidate that did not fail."""
    clocks = {entrant.candidate: Clock(one_by_one(entrant.program, args)) for entrant in right}
    first_s = {}
    for entrant in right:
        with entrant.attempt():
            first_s[entrant.candidate] = clocks[entrant.candidate].least(3)
    looped = min(first_s.values(), default=math.inf) < LOOPED_BELOW_S and can_be_looped(call, args)
    for entrant in right:
        with entrant.attempt():
            if looped:
                run = in_a_loop(replace(call, choice=(entrant.candidate,)), args)
                clocks[entrant.candidate] = Clock(run)
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


def _judge(
    checked: list[_Entrant], samples_s: dict[Candidate, list[float]], default: Candidate | None
) -> tuple[Trial, ...]:
    """The trials of all entrants. The fastest right one is chosen, or the default if no other is clearly faster.

    A candidate is clearly faster if its 80th percentile is below the 20th percentile of the default.
    """
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
        status = Outcome.CHOSEN if each == chosen else Outcome.SLOWER
        median, p20, p80 = times[each]
        trials.append(Trial(each.backend, each.configuration, status, median, p20, p80, reason))
    return tuple(trials)


def _same(array: jax.Array, old: Any) -> bool:
    return bool(np.asarray(array).tobytes() == old.tobytes())
