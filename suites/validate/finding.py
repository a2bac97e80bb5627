"""Defines :class:`Finding`: the result of one check on one cell, as a worker process reports it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from reports import Accuracy, Cell, Status
from suites.cells.case import Case, edges_of, input_types
from suites.checks.judging.evidence import CheckFailed, Evidence, outcome
from suites.checks.register import Check, check_of_id


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """The result of one check; the report of its test carries it, as built-in types, in the attribute ``finding``."""

    cell: Cell
    status: Status
    reason: str | None
    cause: str | None = None
    accuracy: Accuracy | None = None
    shapes: list[list[int]] = []
    dtypes: list[str] = []


def finding(
    case: Case,
    evidence: Evidence | None,
    excinfo: pytest.ExceptionInfo[BaseException] | None,
    report: pytest.TestReport,
) -> Any:
    """Returns the :class:`Finding` of one phase of a test, as built-in types; None where the test is no check."""
    check = check_of_id(report.nodeid)
    if check is None:
        return None
    status, reason = outcome(excinfo)
    has_inputs = bool(case.size) or case.variant in edges_of(case.operator, case.dtype)  # those of an error case differ
    shapes, dtypes = input_types(case.inputs()) if status is not Status.SKIPPED and has_inputs else ([], [])
    result = Finding(
        cell=cell_of(case, check), status=status, reason=reason, shapes=shapes, dtypes=dtypes,
        cause=error.verdict.cause if isinstance(error := excinfo and excinfo.value, CheckFailed) else None,
        accuracy=evidence.accuracy if evidence else None,
    )  # fmt: skip
    return msgspec.to_builtins(result)


def worst(phases: Sequence[Finding]) -> Finding:
    """Returns the finding of the first phase of a test that did not pass; else that of the last phase."""
    return next((finding for finding in phases if finding.status is not Status.PASSED), phases[-1])


def cell_of(case: Case, check: Check) -> Cell:
    """Identifies one check of a case in a record."""
    variant = {} if case.variant is None else {"case": case.variant}
    return msgspec.structs.replace(case.cell, mode=check.name, params=variant)


def key_text(cell: Cell) -> str:
    """Returns the key of a cell as text, equal for equal cells."""
    return json.dumps(cell.key)
