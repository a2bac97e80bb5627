"""Finds a check by its name, for tests that call it."""

from suites.checks.register import Check, checks


def check_named(name: str) -> Check:
    return {each.name: each for each in checks()}[name]
