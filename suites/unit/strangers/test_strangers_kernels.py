"""Kernels as strangers write them, in operators of a name, a reference and a kernel: wrong ones fail, right ones pass.

``right_cuda_kernels.py`` and ``broken_cuda_kernels.py`` are for a GPU: ``kernel-bridge validate FILE --device cuda``.
"""

import pytest

from suites.backends.backend import Backend
from suites.cells.selection import Selection
from suites.checks.drawn import depth, session_seed
from suites.checks.judging.evidence import CheckFailed, Evidence
from suites.checks.register import checks
from suites.unit.strangers import broken_kernels, right_kernels

CAUGHT_BY = {
    "sizes": ["at_4096", "between_300_and_1000", "multiple_of_eight", "swapped_when_even", "two_and_three"],
    "large": ["above_150000", "above_two_million", "last_dropped", "restarts"],
    "indices": ["looks_back"],
    "addresses": ["memoised"],
    "threads": ["shared_scratch", "small_empty_as_zeros"],
    "repeat": ["racing_histogram", "small_empty_as_zeros"],
    "endurance": ["tires_after_2000_calls"],
    "drawn grad": ["wrong_adjoint_above_5", "wrong_adjoint_from_4096"],
}
"""The check that catches each wrong kernel; ``drawn`` catches all others.

``small_empty_as_zeros`` reads what others have left in memory, and is wrong only where that is no finite number. One
of two checks catches it.
"""


@pytest.fixture(autouse=True)
def full_profile():
    """The depth of the full profile, and the same random choices each time."""
    depth.use("full")
    session_seed.use(1)
    yield
    depth.use("quick")


def _made(operator, check):
    """Makes one check of an operator's kernel in its first dtype; returns the failure, or None."""
    platform = "cpu"
    cells = (cell.values[0] for cell in check.cells.cells(platform) if not cell.marks)
    cases = [
        case
        for case in cells
        if case.operator.name == operator.name and case.backend is not Backend.JNP and case.in_first_dtype
    ]
    assert cases
    for case in cases:
        evidence = Evidence()
        try:
            check_function(check)(case, evidence)
            evidence.finish()
        except CheckFailed as failed:
            return failed.verdict
    return None


def check_function(check):
    import importlib

    return getattr(importlib.import_module(f"suites.checks.{check.file.stem}"), check.function)


def _named(name):
    return next(check for check in checks() if check.name == name)


@pytest.fixture
def catalogue_of(monkeypatch):
    def use(operator):
        monkeypatch.setattr("suites.cells.catalogue.operators", lambda: {operator.name: operator})

    return use


@pytest.mark.parametrize("operator", broken_kernels.OPERATORS, ids=lambda operator: operator.name)
def test_wrong_kernel_is_caught(operator, catalogue_of):
    catalogue_of(operator)
    names = [check for check, kernels in CAUGHT_BY.items() if operator.name in kernels] or ["drawn"]
    verdicts = (_made(operator, _named(name)) for name in names)
    verdict = next((each for each in verdicts if each is not None), None)
    assert verdict is not None
    assert verdict.status.wrong, verdict.reason


@pytest.mark.parametrize("operator", right_kernels.OPERATORS, ids=lambda operator: operator.name)
def test_right_kernel_passes(operator, catalogue_of):
    catalogue_of(operator)
    for name in ("edges", "drawn"):
        if name == "drawn" or operator.edges(operator.dtypes[0]):
            verdict = _made(operator, _named(name))
            assert verdict is None, verdict.reason


def test_every_name_is_a_kernel():
    names = {operator.name for operator in broken_kernels.OPERATORS}
    assert {name for each in CAUGHT_BY.values() for name in each} <= names
    assert Selection().profile == "quick"
