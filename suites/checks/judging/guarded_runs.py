"""Runs a compiled program with guard pages around the arrays of its kernels, and judges what the guards have noted."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from bridge.ffi.target import CPU
from reports import Status
from suites.backends.backend import Backend
from suites.guards import page_faults
from suites.guards.guarded_calls import ZEROED, Trespass, guarded_calls
from suites.numerics.verdict import Verdict

RUNS = (0, 1)
"""The runs that :func:`suites.guards.guarded_calls.guarded_calls` needs to see everything."""

_MOST_TOLD = 3


@dataclass(frozen=True)
class GuardedRuns:
    """How a program ran under guards.

    Attributes:
        results: What each run returned; fewer than two if a run failed.
        fault: The verdict about the first access that the kernel must not make; None if there was none.
        calls: How many calls of kernels went through guards.
        missing: Why a call went without guards; None if none did.
    """

    results: Sequence[Any]
    fault: Verdict | None
    calls: int
    missing: str | None = None

    @property
    def unseen(self) -> Verdict:
        """The verdict on a kernel of which the guards saw no call."""
        why = self.missing or "the program ran without a call that the guards could see"
        return Verdict(Status.UNCHECKED, f"nothing is known of the accesses of the kernel: {why}", None)


def why_unguarded(backend: Backend, platform: str) -> str | None:
    """Returns why the kernels of a backend cannot run under guards, or None if they can."""
    if platform != "cpu" or backend.custom_call(platform) != CPU.name:
        return f"the bridge does not call kernels of {backend.id} on {platform} by addresses that it could guard"
    return page_faults.MISSING


def run_guarded(run: Callable[[int], Any], names: Mapping[str, str] | None = None) -> GuardedRuns:
    """Runs a program twice under guards.

    Args:
        run: Runs the program and waits for its end. It gets the number of the run.
        names: What the reason of a failure calls ``input 0``.

    Raises:
        Exception: Whatever ``run`` raises, unless the guards have noted a fault, which then explains it.
    """
    results, calls = [], 0
    for number in RUNS:
        error = None
        try:
            with guarded_calls(number) as guards:
                try:
                    results.append(run(number))
                except Exception as raised:
                    error = raised
        except MemoryError as raised:
            return GuardedRuns(results, None, 0, str(raised))
        calls += guards.calls
        if guards.findings:
            return GuardedRuns(results, _fault(guards.findings, names or {}), calls)
        if error is not None:
            raise error
    return GuardedRuns(results, None, calls)


def zeroed_run(run: Callable[[], Any]) -> Any:
    """Runs a program once more with zeros in the memory that kernels allocate; returns what it returned."""
    with guarded_calls(ZEROED):
        return run()


def _fault(findings: Sequence[Trespass], names: Mapping[str, str]) -> Verdict:
    """The verdict on accesses: the first to each array, the nearest to it."""
    firsts = list({(each.array, each.is_late): each for each in reversed(findings)}.values())[::-1]
    outside = any(each.is_late or not each.is_inside for each in findings)
    told = [str(replace(each, array=names.get(each.array, each.array))) for each in firsts[:_MOST_TOLD]]
    reason = f"the kernel {', and '.join(told)}"
    return Verdict(Status.OUT_OF_BOUNDS if outside else Status.INPUT_MUTATED, reason, None)
