"""Translates the exception that ended a test into the status and the reason of a record."""

from __future__ import annotations

import pytest

from reports import Status
from suites.checks.judging.blame import status_of
from suites.checks.judging.evidence import CheckFailed
from suites.checks.judging.reasons import described


def outcome(excinfo: pytest.ExceptionInfo[BaseException] | None) -> tuple[Status, str | None]:
    """Returns the status and the reason of a test that ended with this exception, or without one."""
    if excinfo is None:
        return Status.PASSED, None
    error = excinfo.value
    if isinstance(error, CheckFailed):
        return error.verdict.status, error.verdict.reason
    if isinstance(error, pytest.skip.Exception):
        return Status.SKIPPED, str(error)
    if isinstance(error, pytest.FixtureLookupError):
        known = "expected case, evidence or a fixture of a conftest.py"
        return Status.UNCHECKED, f"the check asks for {error.argname!r}, which pytest does not know; {known}"
    return status_of(error), described(error)
