"""Yields all cases: every operator in use, backend, dtype and size.

A case that cannot run stays in its table, and is skipped with a reason.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

import jax
import pytest

from suites.backends import BACKENDS, Backend
from suites.cells import catalogue
from suites.cells.case import Case
from suites.cells.selection import Selection
from suites.declare.operator import Operator


def backends(operator: Operator, platform: str) -> list[Backend]:
    """Returns the backends of an operator on a platform: the reference and its kernels, or its ``tested`` backends."""
    tested = operator.backends() if operator.tested is None else operator.tested
    return [backend for backend in BACKENDS.values() if platform in backend.platforms and backend in tested]


def operators_of(selection: Selection) -> list[Operator]:
    """Returns the operators in use that a selection names, or all of them if it names none."""
    return [each for name, each in catalogue.operators().items() if name in (selection.operators or (name,))]


def grid(
    selection: Selection,
    sizes: Callable[[Operator], tuple[int, ...]],
    backends_of: Callable[[Operator, str], list[Backend]] = backends,
) -> Iterator[Case]:
    """Yields every backend and dtype of the operators of a selection at the sizes that ``sizes`` returns for each.

    The cases of one kernel follow each other, so that it is compiled once.
    """
    for operator in operators_of(selection):
        for backend in backends_of(operator, selection.device):
            for dtype in operator.dtypes:
                for size in sizes(operator):
                    yield Case(operator, backend, dtype, size, selection.device)


def as_parameter(case: Case, reason: str | None = None) -> Any:
    """Returns the pytest parameter of a case; it is skipped where it cannot run, or for the reason in ``reason``."""
    reason = why_skipped(case) or reason
    return pytest.param(case, id=case.id, marks=[pytest.mark.skip(reason=reason)] if reason else [])


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
