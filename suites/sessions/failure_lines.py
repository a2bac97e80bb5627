"""Writes one line for each check that failed, for the end of a session."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterable

from reports import Status
from reports.options import again
from suites.backends.backend import Backend
from suites.cells.selection import Selection
from suites.sessions.finding import Finding

FAILURES_SHOWN = 30
BOUNDS_PAGE = "https://github.com/kernel-bridge/kernel-bridge/blob/main/docs/bounds.md"
_LINE = 400


def failure_lines(findings: Iterable[Finding], selection: Selection) -> list[str]:
    """Returns a line for each failed check, at most :data:`FAILURES_SHOWN`, and how to repeat one.

    It also names operators whose reference fails: then the reference or its error bound may be wrong.
    """
    failed = varied([found for found in findings if found.status.failed])
    if not failed:
        return []
    lines = [
        f"{found.cell.operator} {found.cell.backend} {found.cell.dtype}: {found.cell.mode}"
        f"{''.join(f' {value}' for value in found.cell.params.values())}: {found.status}: {_line(found.reason)}"
        for found in failed[:FAILURES_SHOWN]
    ]
    if len(failed) > FAILURES_SHOWN:
        lines.append(f"... and {len(failed) - FAILURES_SHOWN} more; the records have them all")
    cell = failed[0].cell
    words = [*selection.sources, "--operator", cell.operator, "--backend", cell.backend, "--dtype", cell.dtype]
    words += ["--device", cell.platform] if cell.platform != "cpu" else []
    lines.append(f"repeat one with source and traceback: {again('validate')} {shlex.join(words)} -v")
    doubtful = sorted({found.cell.operator for found in failed if found.cell.backend == Backend.JNP.id})
    lines += [
        f"{operator}: jnp fails too. The reference or its error bound may be wrong; see {BOUNDS_PAGE}"
        for operator in doubtful
    ]
    return [*lines, ""]


def varied(failed: list[Finding]) -> list[Finding]:
    """Orders findings so that the first ones show as many kernels and kinds of failure as possible."""
    seen: Counter[tuple[str, str, Status]] = Counter()
    ranks = []
    for found in failed:
        kind = (found.cell.operator, found.cell.backend, found.status)
        ranks.append(seen[kind])
        seen[kind] += 1
    return [found for _, found in sorted(zip(ranks, failed, strict=True), key=lambda pair: pair[0])]


def _line(reason: str | None) -> str:
    text = " ".join((reason or "without a message").split())
    return text if len(text) <= _LINE else text[:_LINE] + "..."
