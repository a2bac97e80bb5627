"""Turns cases into pytest parameters, with the skips and the strict expected failures that apply to them.

A case that cannot run stays in its table as a skip with its reason. A known limitation is a strict xfail: the session
fails if the limitation no longer holds.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import jax
import pytest

from suites.cells.case import Case
from suites.declare.limitation import Limitation


def as_parameter(case: Case, limitations: Sequence[Limitation] = ()) -> Any:
    """Returns the pytest parameter of a case.

    Args:
        case: The case.
        limitations: Known limitations besides the operator's own, such as limitations of its gradient.
    """
    reason = why_skipped(case)
    if reason:
        return pytest.param(case, id=case.id, marks=[pytest.mark.skip(reason=reason)])
    known = _known((*case.operator.limitations, *limitations), case)
    marks = [_must_fail(limitation) for limitation in known if not limitation.checks]
    return pytest.param(case, id=case.id, marks=marks)


def as_skip(case: Case, reason: str) -> Any:
    """Returns the parameter of a case that cannot exist anywhere: a skip with the reason."""
    return pytest.param(case, id=case.id, marks=[pytest.mark.skip(reason=why_skipped(case) or reason)])


def marks_of_check(case: Case, check: str) -> list[pytest.MarkDecorator]:
    """Returns the marks of limitations that name this check; the parameter of the case carries the others."""
    if why_skipped(case):
        return []
    return [_must_fail(known) for known in _known(case.operator.limitations, case) if check in known.checks]


def why_skipped(case: Case) -> str | None:
    """Returns why a case cannot run here, or None if it can."""
    return case.operator.unsupported(case.backend, case.platform, case.dtype) or missing_device(case.platform)


@functools.cache
def missing_device(platform: str) -> str | None:
    """Returns why JAX has no device of a platform here, in one line, or None if it has one."""
    try:
        return None if jax.devices(platform) else f"no {platform} device"
    except RuntimeError as error:
        return no_device(platform, error)


def no_device(platform: str, error: Exception) -> str:
    """Says in one line that JAX has no device of a platform, and what to do."""
    cure = "the extras cuda12 and cuda13 install JAX for it" if platform == "cuda" else "choose another --device"
    return f"no {platform} device: {str(error).splitlines()[0]} ({cure})"


def _known(limitations: Sequence[Limitation], case: Case) -> list[Limitation]:
    edge = case.variant if not case.size else None
    return [limitation for limitation in limitations if limitation.applies(case.backend, case.dtype, edge)]


def _must_fail(limitation: Limitation) -> pytest.MarkDecorator:
    return pytest.mark.xfail(reason=limitation.reason, strict=True)
