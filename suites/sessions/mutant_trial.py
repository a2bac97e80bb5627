"""Runs the checks on one mutant until one of them catches it: the work of one process.

A fault may crash the process, hang it, or damage its memory. So each mutant has a process of its own, and says in time
what it is about to do: whoever waits for it learns which cell brought it down.

A check counts only if the right kernel passes the same cell in the same way.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import os
import resource
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

import jax
import pytest
import warp as wp

from reports import Status
from reports.records.mutant_result import MutantResult
from suites import ops
from suites.backends.backend import Backend
from suites.cells import catalogue
from suites.cells.case import Case
from suites.cells.marks import marks_of_check
from suites.cells.selection import Selection
from suites.checks import folders
from suites.checks.drawn import depth
from suites.checks.drawn.drawn_profile import register_profile
from suites.checks.judging.evidence import Evidence
from suites.checks.judging.exception_status import outcome
from suites.checks.register import Check, checks
from suites.declare.operator import Operator
from suites.mutation.mutated import SourceMutant, built, only
from suites.mutation.same_results import Code, code_of, runnable, same_results
from suites.sessions.preparation import make_cpu_devices

_SOURCE = "kernel_bridge_mutant"
_PROFILES = ("quick", "full", "deep")

_ELSEWHERE = "process"
"""The check in another process, which cannot load a mutant: a mutant lives in this process alone."""


@dataclass(frozen=True, kw_only=True)
class Trial:
    """The work of one process.

    Attributes:
        mutant: The mutant; None to run one cell of the right kernel.
        device: ``cpu`` or ``cuda``.
        profile: The largest profile whose cells run. The cells of smaller ones run first. A cell that tries more in a
            larger profile runs again there.
        limit_s: Seconds of processor time that one cell may take.
        scratch: A folder for the files of all processes.
        folders: Folders with further checks, as :data:`suites.checks.folders.VARIABLE` holds them.
        sound: Cells that the right kernel is known to pass, as :attr:`TrialStep.key`.
        codes: The code of right kernels, by the operator, the backend and the dtype, as far as it is known.
        control: The cell of the right kernel, where ``mutant`` is None.
    """

    mutant: SourceMutant | None
    device: str
    profile: str
    limit_s: float
    scratch: str
    folders: str | None = None
    sound: frozenset[tuple[str, ...]] = frozenset()
    codes: Mapping[tuple[str, str, str], Code] = field(default_factory=dict)
    control: TrialStep | None = None


@dataclass(frozen=True)
class TrialStep:
    """One cell that a process is about to run.

    Attributes:
        operator: Name of the operator.
        backend: Id of the backend.
        check: Name of the check.
        cell: Id of the cell.
        profile: The profile that has the cell.
    """

    operator: str
    backend: str
    check: str
    cell: str
    profile: str

    @property
    def key(self) -> tuple[str, ...]:
        """Identifies the cell with its profile: a cell may try more in a larger one."""
        return self.operator, self.backend, self.check, self.cell, self.profile

    def allowed(self, limit_s: float) -> float:
        """Returns the seconds that it may take if a cell may take ``limit_s``.

        A cell of the deep profile may take ten times as long. What is no cell has several parts.
        """
        if not self.cell:
            return 6 * limit_s
        return 10 * limit_s if self.profile == "deep" else limit_s


def try_in_process(connection: Any, trial: Trial, noise: str) -> None:
    """Runs a trial, as the main function of a process, and sends what happens.

    It sends each :class:`TrialStep` before it runs it, and the :class:`Code` of a right kernel with its key in
    ``codes``. At the end it sends a :class:`MutantResult`; for a control a list of the keys of the cells that the right
    kernel passes.

    Args:
        connection: Where it sends to.
        trial: The trial.
        noise: The file that gets everything that the process prints.
    """
    with open(noise, "w") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    _prepare(trial)
    runner = _Runner(connection.send, trial)
    connection.send(runner.control() if trial.mutant is None else runner.mutant(trial.mutant))
    connection.close()


def _prepare(trial: Trial) -> None:
    """Prepares a process that a fork server has made, whatever that server was started for."""
    os.environ["KERNEL_BRIDGE_CACHE_DIR"] = wp.config.kernel_cache_dir = trial.scratch
    if trial.folders is None:
        os.environ.pop(folders.VARIABLE, None)
    else:
        os.environ[folders.VARIABLE] = trial.folders
    if trial.device == "cpu":
        jax.config.update("jax_platforms", "cpu")
    make_cpu_devices()


class _Runner:
    def __init__(self, send: Callable[[Any], None], trial: Trial):
        self._send, self._trial = send, trial
        self._cells = 0
        self._unsound: list[str] = []
        self._unjudged: dict[TrialStep, str] = {}
        self._growing: set[tuple[str, ...]] = set()

    def control(self) -> list[tuple[str, ...]]:
        """Returns the key of the control's cell if the right kernel passes it."""
        step = self._trial.control
        assert step is not None
        return [step.key] if self._right_kernel_passes(step) else []

    def mutant(self, mutant: SourceMutant) -> MutantResult:
        with tempfile.TemporaryDirectory(prefix="kernel-bridge-mutant-") as folder:
            return self._mutant(mutant, Path(folder))

    def _mutant(self, mutant: SourceMutant, folder: Path) -> MutantResult:
        result = functools.partial(self._result, mutant)
        faulty: dict[tuple[str, str], Operator] = {}
        self._watch(TrialStep(*mutant.targets[0], "build", "", ""))
        for target in mutant.targets:
            try:
                faulty[target] = built(mutant, target, folder)
            except Exception as error:
                return result(outcome="invalid", reason=f"the module does not run: {_line(error)}")
        first = mutant.targets[0]
        try:
            is_same = all(self._has_same_code(mutant, target, faulty[target]) for target in mutant.targets)
        except Exception as error:
            if _is_refusal(error):
                return result(outcome="invalid", reason=f"does not compile: {_line(error)}")
            is_same = False  # the kernel refuses these inputs, which the checks will see
        if is_same:
            return result(outcome="same code", operator=first[0], backend=first[1])
        done: set[tuple[str, ...]] = set()
        for profile in _PROFILES[: _PROFILES.index(self._trial.profile) + 1]:
            for target, operator in faulty.items():
                found = self._caught(mutant, target, operator, profile, done)
                if found is not None:
                    return found
        return self._survivor(mutant, faulty)

    def _has_same_code(self, mutant: SourceMutant, target: tuple[str, str], faulty: Operator) -> bool:
        """Whether the compiler made the same code of the fault, in every dtype."""
        right, backend = _right(target)
        device = self._trial.device
        for dtype in runnable(right, backend, device):
            changed = code_of(faulty, backend, device, dtype)
            key = (*target, dtype)
            known = self._trial.codes.get(key)
            if known is None:
                known = code_of(right, backend, device, dtype)
                self._send((key, known))
            if not changed.equals(known):
                return False
        return mutant.fault.in_kernel

    def _survivor(self, mutant: SourceMutant, faulty: dict[tuple[str, str], Operator]) -> MutantResult:
        result = functools.partial(self._result, mutant)
        notes = "; ".join(self._unsound)
        for step, reason in self._unjudged.items():
            if self._right_kernel_passes(step):
                return result(outcome="undecided", reason=_short(f"{step.check} of {step.cell}: {reason}"))
        inputs = 0
        for target, operator in faulty.items():
            right, backend = _right(target)
            self._watch(TrialStep(*target, "comparison", "", ""))
            compared = same_results(right, operator, backend, self._trial.device, self._trial.limit_s)
            if isinstance(compared, str):
                return result(
                    outcome="survived", operator=target[0], backend=target[1],
                    reason="; ".join(filter(None, (compared, notes))),
                )  # fmt: skip
            inputs += compared
        first = mutant.targets[0]
        return result(outcome="same results", operator=first[0], backend=first[1], inputs=inputs, reason=notes or None)

    def _caught(
        self,
        mutant: SourceMutant,
        target: tuple[str, str],
        operator: Operator,
        profile: str,
        done: set[tuple[str, ...]],
    ) -> MutantResult | None:
        """Runs what a profile has and smaller ones have not. Returns the result if a cell fails.

        In the deep profile this is every cell, since more inputs are drawn.
        """
        for check, case in self._cells_of(operator, profile):
            step = TrialStep(*target, check.name, case.id, profile)
            cell = (*target, check.name, case.id)
            if cell in done and cell not in self._growing and profile != "deep":
                continue
            done.add(cell)
            self._watch(step)
            self._cells += 1
            status, reason, error = _run(check, case, profile)
            if depth.is_asked():
                self._growing.add(cell)
            if not status.wrong:
                if status.failed:
                    self._unjudged[step] = f"{status}: {reason}"
                continue
            if error is not None and _is_refusal(error):
                return self._result(mutant, outcome="invalid", reason=f"does not compile: {reason}")
            if step.key not in self._trial.sound and not self._right_kernel_passes(step):
                self._unsound.append(f"{check.name} of {case.id} also fails for the right kernel")
                continue
            return self._result(
                mutant, outcome="caught", operator=target[0], backend=target[1], check=check.name, cell=case.id,
                status=status, reason=_short(reason),
            )  # fmt: skip
        return None

    def _cells_of(self, operator: Operator, profile: str) -> list[tuple[Check, Case]]:
        """Returns the cells of an operator that can run, of every check in the order of the checks."""
        _use(operator)
        selection = Selection(sources=(_SOURCE,), device=self._trial.device, profile=profile)
        cells = [
            (check, cell) for check in checks() if check.name != _ELSEWHERE for cell in check.cells.chosen(selection)
        ]
        return [
            (check, cell.values[0])
            for check, cell in cells
            if cell.values[0].backend is not Backend.JNP
            and not cell.marks  # a skip or a known limitation
            and not marks_of_check(cell.values[0], check.name)
        ]

    def _right_kernel_passes(self, step: TrialStep) -> bool:
        right, backend = _right((step.operator, step.backend))
        for check, case in self._cells_of(only(right, backend), step.profile):
            if (check.name, case.id) == (step.check, step.cell):
                self._watch(step)
                return _run(check, case, step.profile)[0] is Status.PASSED
        return False

    def _watch(self, step: TrialStep) -> None:
        """Says what comes next, and has the system end this process if that takes too long."""
        used = resource.getrusage(resource.RUSAGE_SELF)
        _, most = resource.getrlimit(resource.RLIMIT_CPU)
        soft = int(used.ru_utime + used.ru_stime + step.allowed(self._trial.limit_s)) + 1
        resource.setrlimit(resource.RLIMIT_CPU, (soft, most))
        self._send(step)

    def _result(self, mutant: SourceMutant, **facts: Any) -> MutantResult:
        return result_of(mutant, cells=self._cells, seconds=time.process_time(), **facts)


def result_of(mutant: SourceMutant, **facts: Any) -> MutantResult:
    """Returns the result of a mutant with these facts."""
    return MutantResult(
        name=mutant.name, language=mutant.language, kind=mutant.fault.kind, file=mutant.file, line=mutant.fault.line,
        diff=mutant.fault.diff(mutant.source), before=mutant.fault.before, after=mutant.fault.after, **facts,
    )  # fmt: skip


def _run(check: Check, case: Case, profile: str) -> tuple[Status, str | None, BaseException | None]:
    """Runs a check on a case as pytest would in a session of this profile, with the fixtures that checks use."""
    test = _test(check)
    depth.use(profile)
    register_profile(deep=profile == "deep")
    with contextlib.ExitStack() as stack:
        fixtures: dict[str, Callable[[], Any]] = {
            "case": lambda: case,
            "evidence": Evidence,
            "monkeypatch": lambda: stack.enter_context(pytest.MonkeyPatch.context()),
            "tmp_path": lambda: Path(stack.enter_context(tempfile.TemporaryDirectory())),
        }
        wanted = inspect.signature(test).parameters
        unknown = [name for name in wanted if name not in fixtures]
        if unknown:
            return Status.UNCHECKED, f"the fixture {unknown[0]!r} exists in pytest alone", None
        try:
            test(**{name: fixtures[name]() for name in wanted})
        except (Exception, pytest.skip.Exception, pytest.fail.Exception):
            found = pytest.ExceptionInfo.from_current()
            return *outcome(found), found.value
    return Status.PASSED, None, None


@functools.cache
def _test(check: Check) -> Callable[..., Any]:
    modules = [module for module in list(sys.modules.values()) if getattr(module, "__file__", None) == str(check.file)]
    found: Callable[..., Any] = next(filter(None, (getattr(module, check.function, None) for module in modules)))
    return found


def _use(operator: Operator) -> None:
    """Makes an operator the only one of the catalogue."""
    module: Any = ModuleType(_SOURCE)
    module.OPERATORS = [operator]
    sys.modules[_SOURCE] = module
    catalogue.use((_SOURCE,))


def _right(target: tuple[str, str]) -> tuple[Operator, Backend]:
    return ops.operators()[target[0]], next(backend for backend in Backend if backend.id == target[1])


def _is_refusal(error: BaseException) -> bool:
    """Whether a compiler refused a kernel."""
    text = str(error)
    return type(error).__name__ == "KernelCompileError" or "KernelCompileError" in text or "NVRTC_ERROR" in text


def _line(error: BaseException) -> str:
    return _short(f"{type(error).__name__}: {error}") or ""


def _short(reason: str | None) -> str | None:
    return None if reason is None else " ".join(reason.split())[:300]
