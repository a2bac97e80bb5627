"""Each broken kernel is caught by the check that it names, and no check refuses a right one."""

import importlib

import pytest

from reports import Status
from suites.backends import BACKENDS
from suites.cells import catalogue
from suites.cells.selection import Selection
from suites.checks.drawn import session_choices
from suites.checks.judging.evidence import CheckFailed, Evidence
from suites.checks.judging.reasons import status_of
from suites.checks.register import checks
from suites.mutants import mutants
from suites.unit.suites.named_checks import check_named

RIGHT = {"cpu": "right_kernels", "cuda": "right_cuda_kernels"}


def pytest_generate_tests(metafunc):
    """Gives a test the broken or the right kernels of the device, which ``--kb-device`` names."""
    platform = metafunc.config.option.kb_device
    if "mutant" in metafunc.fixturenames:
        own = [
            each
            for each in mutants().values()
            if each.operator.kernels[each.backend].unsupported(platform) is None and platform in each.backend.platforms
        ]
        metafunc.parametrize("mutant", own, ids=lambda mutant: mutant.name)
    if "operator" in metafunc.fixturenames:
        right = importlib.import_module(f"suites.mutants.{RIGHT[platform]}")
        metafunc.parametrize("operator", right.OPERATORS, ids=lambda operator: operator.name)


@pytest.fixture(scope="module")
def status_by(request):
    """Returns a function that makes a check of an operator's kernels, and returns how the first one that fails ends."""
    platform = request.config.option.kb_device
    catalogue.use(["suites.mutants", f"suites.mutants.{RIGHT[platform]}"])
    session_choices.use(1, "full")

    def make(operator, name):
        table = check_named(name).cells.cells(Selection(device=platform, operators=(operator.name,)))
        cases = [cell.values[0] for cell in table if not cell.marks]
        cases = [each for each in cases if each.operator is operator and each.backend is not BACKENDS["jnp"]]
        for case in cases:
            evidence = Evidence()
            try:
                check_named(name).test(case, evidence)
                evidence.finish()
            except CheckFailed as failed:
                return failed.verdict.status
            except Exception as error:
                return status_of(error)
        return Status.PASSED if cases else Status.UNCHECKED

    yield make
    catalogue.use([])
    session_choices.use(0)


def test_every_check_catches_a_broken_kernel():
    known = {check.name for check in checks()}
    for mutant in mutants().values():
        assert set(mutant.caught_by) <= known, mutant.name
    named = {name for mutant in mutants().values() for name in mutant.caught_by}
    assert known == named


@pytest.mark.filterwarnings("ignore:.* never writes to its output")
def test_a_broken_kernel_is_caught_by_the_check_that_it_names(mutant, status_by):
    found = {name: status_by(mutant.operator, name) for name in mutant.caught_by}
    assert any(status.wrong for status in found.values()), found


def test_no_check_refuses_a_right_kernel(operator, status_by):
    names = ("drawn", "edges") if operator.edges(operator.dtypes[0]) else ("drawn",)
    names += ("repeat", "endurance", "threads") if operator.name == "counted" else ()  # into an array of rank 0
    found = {name: status_by(operator, name) for name in names}
    assert set(found.values()) == {Status.PASSED}, found
