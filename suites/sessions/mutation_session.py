"""Tries many mutants at a time, each in a process of its own, and records each as it ends."""

from __future__ import annotations

import multiprocessing
import os
import random
import signal
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any

import msgspec

from reports import Status
from reports.errors import ReportError
from reports.records.mutant_result import (
    SUFFIX,
    MutantResult,
    Mutation,
    MutationEnd,
    MutationHeader,
    append_line,
    read_mutation,
)
from reports.records.store import runs_directory
from suites.bench import run_header
from suites.cells.selection import Selection, SelectionError
from suites.checks import folders
from suites.mutation.mutated import SourceMutant, mutants
from suites.mutation.reviewed import why_no_fault
from suites.mutation.same_results import Code
from suites.sessions.mutant_trial import Trial, TrialStep, result_of, try_in_process

PROFILE = "mutation"
"""The profile that the header of such a run names."""

_WALL, _LEAST_WALL_S = 6, 120.0
"""How much longer than its processor time a cell may take, and the least of it: others use the machine too."""

_EXIT_S = 5.0
"""Seconds that a process has to end after its result."""

_VARIABLES = {
    "OPENBLAS_NUM_THREADS": "1",
    "XLA_PYTHON_CLIENT_PREALLOCATE": "false",
    "TF_CPP_MIN_LOG_LEVEL": "3",
    "PYTHONWARNINGS": "ignore:resource_tracker",  # a process that is killed leaves its semaphores to the tracker
}


@dataclass(frozen=True, kw_only=True)
class MutationPlan:
    """What to try.

    Attributes:
        selection: The device, backends and operators, and the largest profile whose cells run.
        sample: How many mutants to choose at random; all by default.
        seed: Seed of the choice.
        only: Parts of the names of the mutants to try; all by default.
        jobs: How many to try at a time.
        limit_s: Seconds of processor time that a cell may take.
        resume: The file of a run to go on with.
    """

    selection: Selection
    sample: int | None = None
    seed: int = 0
    only: Sequence[str] = ()
    jobs: int = 1
    limit_s: float = 30.0
    resume: str | None = None


def mutate(plan: MutationPlan, show: Callable[[int, int, MutantResult], None]) -> Path:
    """Tries the mutants of a plan.

    Args:
        plan: What to try.
        show: Takes how many mutants are done, how many there are, and the last result.

    Returns:
        The file with the results.

    Raises:
        SelectionError: Nothing is left to try, or the resumed run is of other code.
    """
    made = mutants(plan.selection.device, plan.selection.backends, plan.selection.operators)
    fitting = [mutant for mutant in made if not plan.only or any(part in mutant.name for part in plan.only)]
    chosen = _spread(fitting, plan.sample, plan.seed)
    if not chosen:
        raise SelectionError(f"no mutant fits {plan.selection}. Name other operators or backends.")
    run = run_header.header(plan.selection, PROFILE, False)
    header = MutationHeader(
        run=run, made=len(made), chosen=[mutant.name for mutant in chosen], seed=plan.seed if plan.sample else None
    )
    path = runs_directory() / f"{run.run_id}{SUFFIX}"
    done: dict[str, MutantResult] = {}
    if plan.resume is None:
        path.parent.mkdir(parents=True, exist_ok=True)
        append_line(path, header)
    else:
        path, done = _resumed(plan.resume, header)
    left = [mutant for mutant in chosen if mutant.name not in done]
    with (
        tempfile.TemporaryDirectory(prefix="kernel-bridge-mutation-") as scratch,
        _environment(plan.selection.device, scratch),
    ):
        pool = _Pool(plan, scratch)
        for result in pool.results(left):
            append_line(path, result)
            done[result.name] = result
            show(len(done), len(chosen), result)
    append_line(path, MutationEnd(results=len(done)))
    return path


def _spread(fitting: Sequence[SourceMutant], sample: int | None, seed: int) -> list[SourceMutant]:
    """Chooses mutants at random, as many of each language and kind as possible, so that rare kinds are not missed."""
    if sample is None or sample >= len(fitting):
        return list(fitting)
    draw = random.Random(seed)
    groups: dict[tuple[str, str], list[SourceMutant]] = {}
    for mutant in fitting:
        groups.setdefault((mutant.language, mutant.fault.kind), []).append(mutant)
    for group in groups.values():
        draw.shuffle(group)
    chosen: list[SourceMutant] = []
    while len(chosen) < sample:
        for group in [groups[key] for key in sorted(groups)]:
            if group and len(chosen) < sample:
                chosen.append(group.pop())
    order = {mutant.name: place for place, mutant in enumerate(fitting)}
    return sorted(chosen, key=lambda mutant: order[mutant.name])


def _resumed(name: str, header: MutationHeader) -> tuple[Path, dict[str, MutantResult]]:
    path = Path(name)
    if not path.is_file():
        path = runs_directory() / f"{name.removesuffix(SUFFIX)}{SUFFIX}"
    try:
        held: Mutation = read_mutation(path)
    except ReportError as error:
        raise SelectionError(f"--resume {name}: {error}") from error
    before, now = held.header.run, header.run
    if (before.source, before.versions, before.device.kind) != (now.source, now.versions, now.device.kind):
        raise SelectionError(f"--resume {name}: is of another commit, library or device. Start a new run.")
    if held.is_complete:
        raise SelectionError(f"--resume {name}: is complete.")
    if held.header.chosen != header.chosen:
        raise SelectionError(f"--resume {name}: chose other mutants. Give the options that it was started with.")
    return path, dict(held.results)


@contextmanager
def _environment(device: str, scratch: str) -> Iterator[None]:
    """Sets the variables that the fork server reads as it starts; it serves all sessions of this process."""
    before = dict(os.environ)
    os.environ.update({name: os.environ.get(name, value) for name, value in _VARIABLES.items()})
    os.environ.setdefault("HYPOTHESIS_STORAGE_DIRECTORY", str(Path(scratch, "hypothesis")))
    os.environ["NUMBA_NUM_THREADS"] = str(min(4, os.cpu_count() or 1))
    if device == "cpu":
        os.environ["JAX_PLATFORMS"] = "cpu"
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


@dataclass
class _Work:
    """A process and what it does."""

    trial: Trial
    process: Any
    noise: Path
    step: TrialStep | None = None
    since: float = field(default_factory=time.monotonic)
    started: float = field(default_factory=time.monotonic)
    cells: int = 0
    is_stuck: bool = False


class _Pool:
    """Runs trials in forked processes. A cell that brings its process down is run with the right kernel afterwards."""

    def __init__(self, plan: MutationPlan, scratch: str):
        self._plan, self._scratch = plan, Path(scratch)
        self._context = multiprocessing.get_context("forkserver")
        self._context.set_forkserver_preload(["suites.sessions.mutation_warmup"])
        self._sound: set[tuple[str, ...]] = set()
        self._codes: dict[tuple[str, str, str], Code] = {}
        self._running: dict[Any, _Work] = {}
        self._suspects: dict[tuple[str, ...], list[MutantResult]] = {}
        self._count = 0

    def results(self, chosen: Sequence[SourceMutant]) -> Iterator[MutantResult]:
        """Yields the result of each mutant as it ends."""
        waiting = deque(self._trial(mutant=mutant) for mutant in chosen)
        try:
            while waiting or self._running:
                while waiting and len(self._running) < self._plan.jobs:
                    self._start(replace(waiting.popleft(), sound=frozenset(self._sound), codes=dict(self._codes)))
                for result, fatal in self._ended():
                    if fatal is None or fatal.key in self._sound:
                        yield _reviewed(result)
                        continue
                    if fatal.key not in self._suspects:
                        waiting.appendleft(self._trial(control=fatal))
                    self._suspects.setdefault(fatal.key, []).append(result)
        finally:
            for work in self._running.values():
                work.process.kill()
                work.process.join()

    def _trial(self, mutant: SourceMutant | None = None, control: TrialStep | None = None) -> Trial:
        plan = self._plan
        return Trial(
            mutant=mutant, device=plan.selection.device, profile=plan.selection.profile, limit_s=plan.limit_s,
            control=control, scratch=str(self._scratch), folders=os.environ.get(folders.VARIABLE),
        )  # fmt: skip

    def _start(self, trial: Trial) -> None:
        self._count += 1
        noise = self._scratch / f"noise-{self._count}.txt"
        receiving, sending = self._context.Pipe(duplex=False)
        process = self._context.Process(target=try_in_process, args=(sending, trial, str(noise)))
        process.start()
        sending.close()
        self._running[receiving] = _Work(trial, process, noise)

    def _ended(self) -> Iterator[tuple[MutantResult, TrialStep | None]]:
        """Waits for a message, and yields the results of mutants whose processes have ended.

        A cell that brought its process down comes with the result: it says nothing before the right kernel has run it.
        """
        ready: list[Any] = wait(list(self._running), timeout=1.0)
        for connection in ready:
            work = self._running[connection]
            try:
                message = connection.recv()
            except (EOFError, OSError):
                yield from self._died(connection, work)
                continue
            if isinstance(message, TrialStep):
                work.step, work.since = message, time.monotonic()
                work.cells += 1
            elif isinstance(message, MutantResult):
                if message.check is not None and work.step is not None:
                    self._sound.add(work.step.key)  # the last cell of a mutant that was caught
                self._close(connection, work)
                yield message, None
            elif isinstance(message, tuple):
                key, code = message
                self._codes[key] = code
            else:
                self._sound.update(message)
                self._close(connection, work)
                yield from self._judged(work)
        for work in self._running.values():
            limit_s = work.step.allowed(self._plan.limit_s) if work.step else self._plan.limit_s
            if time.monotonic() - work.since > max(_WALL * limit_s, _LEAST_WALL_S):
                work.is_stuck = True
                work.process.kill()
                work.since = time.monotonic()

    def _died(self, connection: Any, work: _Work) -> Iterator[tuple[MutantResult, TrialStep | None]]:
        self._close(connection, work)
        mutant, step = work.trial.mutant, work.step
        if mutant is None:  # the right kernel brings the process down as well
            yield from self._judged(work)
            return
        code = work.process.exitcode
        is_timeout = work.is_stuck or code == -signal.SIGXCPU
        words = "takes too long" if is_timeout else f"the process ended with {_ending(code)}"
        facts: dict[str, Any] = {"cells": work.cells, "seconds": time.monotonic() - work.started}
        if step is None or not step.cell:
            where = "before it ran" if step is None else f"in the {step.check}"
            yield result_of(mutant, outcome="undecided", reason=f"{words} {where}", **facts), None
            return
        said = work.noise.read_text(errors="replace").split() if work.noise.exists() else []
        result = result_of(
            mutant, outcome="caught", operator=step.operator, backend=step.backend, check=step.check, cell=step.cell,
            status=Status.TIMEOUT if is_timeout else Status.CRASHED, reason=" ".join([words, *said[-20:]]), **facts,
        )  # fmt: skip
        yield result, step

    def _judged(self, work: _Work) -> Iterator[tuple[MutantResult, TrialStep | None]]:
        """Yields the mutants that brought a cell down, as the right kernel has shown that cell to be sound or not."""
        step = work.trial.control
        assert step is not None
        for result in self._suspects.pop(step.key, []):
            if step.key in self._sound:
                yield result, None
            else:
                reason = "the right kernel brings this cell down as well"
                yield msgspec.structs.replace(result, outcome="undecided", reason=reason), None

    def _close(self, connection: Any, work: _Work) -> None:
        del self._running[connection]
        connection.close()
        work.process.join(_EXIT_S)
        if work.process.is_alive():  # a thread of the mutant goes on
            work.process.kill()
            work.process.join()


def _reviewed(result: MutantResult) -> MutantResult:
    """Returns a survivor that somebody has read with the reason why it is no fault."""
    if result.outcome not in ("survived", "same results"):
        return result
    why = why_no_fault(Path(result.file).stem, result.kind, result.before, result.after)
    return result if why is None else msgspec.structs.replace(result, outcome="reviewed", reason=why)


def _ending(code: int | None) -> str:
    if code is not None and code < 0:
        return f"signal {signal.Signals(-code).name}"
    return f"exit code {code}"
