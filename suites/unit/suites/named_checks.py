"""Finds a check by its name, and runs it, for tests of what it judges."""

from suites.backends import BACKENDS
from suites.cells.case import Case
from suites.checks.judging.evidence import Evidence
from suites.checks.register import Check, checks


def check_named(name: str) -> Check:
    return {each.name: each for each in checks()}[name]


def run_check(name, operator, backend=BACKENDS["numba"], size=33, variant=None, dtype="float32"):
    """Makes a check of a kernel on the CPU, which judges something or raises what it finds."""
    evidence = Evidence()
    check_named(name).test(Case(operator, backend, dtype, size, "cpu", variant), evidence)
    evidence.finish()
