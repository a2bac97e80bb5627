"""Continues a recorded run: on the same machine, with the same settings and the same profile."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from reports import Record, Run
from reports.pages.compare import header_differences
from suites.cells.selection import SelectionError


def continued_header(name: str, records: Sequence[Record], run: Run, *, same_code: bool) -> Run:
    """Returns the header under which a session continues a run.

    Args:
        name: The argument of ``--resume``.
        records: The records of the run so far.
        run: The header that a new run would have.
        same_code: Whether commit and versions must be the same too.

    Raises:
        SelectionError: The run differs from the session; the message lists the differences.
    """
    old = records[0].run if records else run
    different = header_differences(old, run)
    compared: list[tuple[str, object, object]] = [("profile", old.profile, run.profile)]
    if same_code:
        compared += [("commit", old.source.commit, run.source.commit), ("versions", old.versions, run.versions)]
    different += [f"{what}: then {then!r}, now {now!r}" for what, then, now in compared if then != now]
    if different:
        raise SelectionError(f"--resume {name}: that run was made elsewhere or otherwise: {'; '.join(different)}.")
    return msgspec.structs.replace(run, run_id=old.run_id, started=old.started)
