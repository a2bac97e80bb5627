"""A recorded run of the mutants in, the kill matrix out: which check caught which mutant, and who survived."""

from __future__ import annotations

from pathlib import Path

from reports import read_run
from reports.pages.frame import to_frame
from reports.pages.kills import kill_tables, survivors
from reports.render.layout import Table
from suites.checks import register as checks
from suites.mutants import mutants


def matrix(path: Path, platform: str) -> tuple[list[Table], list[str]]:
    """The tables of a run, and the names of the mutants that no check caught."""
    frame = to_frame(read_run(path))
    faults = {name: mutant.fault for name, mutant in mutants().items() if platform in mutant.backend.platforms}
    sees = {check.name: check.sees for check in checks.CHECKS}
    return kill_tables(frame, sees, faults), survivors(frame)
