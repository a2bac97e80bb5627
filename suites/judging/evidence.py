"""The verdicts that one test reaches in, what is recorded of the test out: a status, a reason, the worst accuracy."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import jax
import pytest

from reports import Accuracy, Status
from suites.truth.verdict import Verdict


class CheckFailed(AssertionError):
    """A check did not pass; the verdict says what is wrong."""

    def __init__(self, verdict: Verdict):
        super().__init__(f"{verdict.status}: {verdict.reason}")
        self.verdict = verdict


class Evidence:
    """What a test has seen so far; the fixture ``evidence`` is one for each test.

    Attributes:
        accuracy: That of the result which used most of its error budget.
    """

    def __init__(self) -> None:
        self.accuracy: Accuracy | None = None

    def require(self, verdict: Verdict, where: str = "") -> None:
        """Notes the accuracy.

        Args:
            verdict: What was found.
            where: Put before the reason, such as ``element 2``.

        Raises:
            CheckFailed: The verdict is another than PASSED.
        """
        if verdict.accuracy is not None and _used(verdict.accuracy) >= _used(self.accuracy):
            self.accuracy = verdict.accuracy
        if verdict.status is not Status.PASSED:
            raise CheckFailed(replace(verdict, reason=f"{where}: {verdict.reason}") if where else verdict)

    def fail(self, status: Status, reason: str) -> None:
        """Raises :class:`CheckFailed`."""
        raise CheckFailed(Verdict(status, reason, None))

    def require_witness(self, missing: str | None) -> None:
        """Takes what :func:`suites.judging.cell_verdict.missing_custom_call` says of a program.

        Raises:
            CheckFailed: The program is not one of this kernel.
        """
        if missing:
            self.fail(Status.COMPILE_ERROR, missing)


def outcome(excinfo: pytest.ExceptionInfo[BaseException] | None) -> tuple[Status, str | None]:
    """The status of a test that ended with this exception, or without one, and its reason."""
    if excinfo is None:
        return Status.PASSED, None
    error = excinfo.value
    if isinstance(error, CheckFailed):
        return error.verdict.status, error.verdict.reason
    if isinstance(error, pytest.skip.Exception):
        return Status.SKIPPED, str(error)
    if isinstance(error, MemoryError) or (
        isinstance(error, jax.errors.JaxRuntimeError) and "RESOURCE_EXHAUSTED" in str(error)
    ):
        return Status.OOM, _described(error)
    return Status.RUNTIME_ERROR, _described(error)


def _described(error: BaseException) -> str:
    return f"{type(error).__name__}: {str(error).strip() or 'without a message'}"


def _used(accuracy: Accuracy | None) -> float:
    used: Any = accuracy and accuracy.budget_used
    return -1.0 if used is None else float(used)
