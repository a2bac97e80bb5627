"""Builds the kill matrix from a recorded run of the mutants: which check caught which mutant, and which survived."""

from __future__ import annotations

from pathlib import Path

from reports import read_run
from reports.pages.kills import kill_tables
from reports.records.broken_kernels import survivors
from reports.render.layout import Table
from suites.checks.register import checks
from suites.mutants import mutants


def matrix(path: Path, platform: str) -> tuple[list[Table], list[str]]:
    """Returns the tables of a run, and the names of the mutants that no check caught."""
    records = read_run(path)
    return kill_tables(records, *purposes_and_faults(platform)), survivors(records)


def purposes_and_faults(platform: str) -> tuple[dict[str, str], dict[str, str]]:
    """Returns the purpose of each check, in order, and the fault of each broken kernel that runs on a platform."""
    faults = {name: mutant.fault for name, mutant in mutants().items() if platform in mutant.backend.platforms}
    return {check.name: check.sees for check in checks()}, faults
