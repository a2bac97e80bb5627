"""Collects the verdicts that one check reaches: its worst accuracy, and the failure that ends it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NoReturn

import jax
import numpy as np
import pytest

from reports import Accuracy, Status
from suites.cells.case import Case
from suites.checks.judging.cell_verdict import judge_results, missing_custom_call
from suites.checks.judging.reasons import error_text, status_of
from suites.declare.operator import Operator
from suites.kernels.kernel import AtLeast
from suites.numerics.arrays import Array, Inputs, fingerprint
from suites.numerics.verdict import ResultVerdict


class CheckFailed(AssertionError):
    """Ends a check that did not pass; the verdict says what is wrong."""

    def __init__(self, verdict: ResultVerdict):
        super().__init__(f"{verdict.status}: {verdict.words}")
        self.verdict = verdict


class Evidence:
    """Holds the worst accuracy of a check so far. The fixture ``evidence`` makes one for each test.

    Attributes:
        accuracy: Accuracy of the result that used most of its error budget; None before the first result.
    """

    def __init__(self) -> None:
        self.accuracy: Accuracy | None = None
        self._count = 0
        self._judged = 0
        self._unchecked: CheckFailed | None = None

    def require(self, verdict: ResultVerdict, where: str = "", *, every_element: bool = False) -> None:
        """Requires that a verdict is PASSED, and keeps its accuracy if it is the worst.

        Special and drawn inputs may have elements that cannot be judged. Then only the others are judged, and
        :meth:`finish` requires that there were some.

        Args:
            verdict: The verdict.
            where: Precedes the reason of a failure, such as ``element 2``.
            every_element: Whether every element must have been judged, as in samples.

        Raises:
            CheckFailed: The verdict is not PASSED, or with ``every_element`` an element could not be judged.
        """
        self._count += 1
        if verdict.accuracy is not None and _used(verdict.accuracy) >= _used(self.accuracy):
            self.accuracy = verdict.accuracy
        if verdict.status is not Status.PASSED:
            failed = CheckFailed(replace(verdict, reason=f"{where}: {verdict.reason}") if where else verdict)
            if verdict.status is not Status.UNCHECKED or every_element:
                raise failed
            self._unchecked = self._unchecked or failed
        self._judged += verdict.judged

    def require_elements(
        self, operator: Operator, elements: Sequence[Inputs], results: Sequence[Any], each: str = "element"
    ) -> None:
        """Requires right results of each element of a batch, along the first axis of all results."""
        leaves = [np.asarray(leaf) for leaf in results]
        for index, inputs in enumerate(elements):
            self.require(judge_results(operator, inputs, [leaf[index] for leaf in leaves]), f"{each} {index}")

    def require_unchanged(self, before: str, arrays: Sequence[Array]) -> None:
        """Requires that inputs have the digest that they had before a call."""
        if fingerprint(arrays) != before:
            self.fail(Status.INPUT_MUTATED, "an input has other bits after the call than before")

    def require_calls(self, program: jax.stages.Compiled, case: Case, *, times: int = 1) -> None:
        """Requires that a compiled program calls the kernel of a case, and no other.

        Args:
            program: The program.
            case: The case.
            times: How often the program calls the operator, which may take several kernels.

        Raises:
            CheckFailed: The program has another number of calls, so it proves nothing about the kernel.
        """
        calls = times * case.operator.calls(case.backend)
        if isinstance(calls, AtLeast):
            calls = replace(calls, calls=calls.transformed)
        missing = missing_custom_call(program.as_text() or "", case.backend, case.platform, calls)
        if missing:
            self.fail(Status.COMPILE_ERROR, missing)

    def seen(self) -> None:
        """Counts a result that the check has compared by itself, such as an exception that had to be raised."""
        self._count += 1

    def finish(self) -> None:
        """Requires that a result was judged. The plugin calls it at the end of each check that ended well.

        Raises:
            CheckFailed: The check has judged no result, or no element of any result could be judged. The status is
                UNCHECKED, because this is no fault of the kernel.
        """
        if not self._count:
            self.fail(
                Status.UNCHECKED,
                "the check ended without judging a result. Call evidence.require(verdict), or evidence.seen() after a "
                "comparison of its own",
            )
        if self._unchecked is not None and not self._judged:
            raise self._unchecked

    def fail(self, status: Status, reason: str) -> NoReturn:
        """Raises :class:`CheckFailed` with this status and reason."""
        raise CheckFailed(ResultVerdict(status, reason, None))


def _used(accuracy: Accuracy | None) -> float:
    return -1.0 if accuracy is None or accuracy.budget_used is None else float(accuracy.budget_used)


def outcome(excinfo: pytest.ExceptionInfo[BaseException] | None) -> tuple[Status, str | None]:
    """Returns the status and the reason of a test that ended with this exception, or without one."""
    if excinfo is None:
        return Status.PASSED, None
    error = excinfo.value
    if isinstance(error, CheckFailed):
        return error.verdict.status, error.verdict.words
    if isinstance(error, pytest.skip.Exception):
        return Status.SKIPPED, str(error)
    return status_of(error), error_text(error)
