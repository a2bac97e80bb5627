"""Writes one line for each kernel that failed: its most specific cause, the smallest inputs, and how to repeat it.

Many checks find the same fault. The line names the cause that says most, and counts the rest.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from typing import Any

from reports import Status

CAUSES: dict[Status, str] = {
    Status.COMPILE_ERROR: "does not compile",
    Status.UNWRITTEN_OUTPUT: "leaves elements unwritten",
    Status.OUT_OF_BOUNDS: "goes out of bounds",
    Status.CRASHED: "crashes",
    Status.TIMEOUT: "takes too long",
    Status.INPUT_MUTATED: "changes an input",
    Status.NONDETERMINISTIC: "gives other results each time",
    Status.RUNTIME_ERROR: "raises",
    Status.WRONG_SHAPE: "has the wrong shape",
    Status.WRONG_DTYPE: "has the wrong dtype",
    Status.WRONG_VALUE: "is wrong",
    Status.OOM: "runs out of memory",
    Status.LEAKED: "keeps memory",
}
"""The causes in words, the most specific first."""

IMPRECISE = "is imprecise"
MOST_IMPRECISE = 100.0
"""The share of the error budget up to which a result is called imprecise rather than wrong."""

FoundFault = Any
"""What one check found: a :class:`suites.sessions.finding.Finding`."""

LONGEST = 300
"""Characters of a reason."""

_INPUTS = "; inputs: "


def kernel_lines(findings: Iterable[FoundFault], command: Sequence[str] = ("kernel-bridge", "validate")) -> list[str]:
    """Returns one line for each kernel that a check found wrong, such as::

        cube numba float32: is wrong: output 0[0]: got 5.0, truth 7.0; inputs: x = np.array([7.0], np.float32)
        (3 checks: drawn, edges, vmap). Repeat: kernel-bridge validate my_ops.py --operator cube ...

    Args:
        findings: What all checks found.
        command: The words of the command that repeats a check, with the files of operators.
    """
    kernels: dict[tuple[str, str], list[FoundFault]] = {}
    for found in findings:
        if found.status in CAUSES:
            kernels.setdefault((found.cell.operator, found.cell.backend), []).append(found)
    return [_line(several, command) for several in kernels.values()]


def _line(several: Sequence[FoundFault], command: Sequence[str]) -> str:
    best = min(several, key=lambda found: (_rank(found), _length_of_inputs(found), len(found.reason or "")))
    cell = best.cell
    reason = " ".join((best.reason or "without a message").split())
    if len(reason) > LONGEST:
        reason = reason[:LONGEST] + "..."
    checks = list(dict.fromkeys(found.cell.mode for found in several))
    by = f"{len(checks)} checks: {', '.join(checks[:4])}{', ...' if len(checks) > 4 else ''}"
    words = [*command, "--operator", cell.operator, "--backend", cell.backend, "--dtype", cell.dtype]
    words += ["--device", cell.platform] if cell.platform != "cpu" else []
    return (
        f"{cell.operator} {cell.backend} {cell.dtype}: {_cause(best)}: {reason} "
        f"({by if len(checks) > 1 else f'check {checks[0]}'}). Repeat: {shlex.join(words)} -v"
    )


def _rank(found: FoundFault) -> tuple[int, bool]:
    return list(CAUSES).index(found.status), _is_imprecise(found)


def _is_imprecise(found: FoundFault) -> bool:
    used = found.accuracy.budget_used if found.accuracy else None
    return found.status is Status.WRONG_VALUE and used is not None and used < MOST_IMPRECISE


def _cause(found: FoundFault) -> str:
    return IMPRECISE if _is_imprecise(found) else CAUSES[found.status]


def _length_of_inputs(found: FoundFault) -> int:
    """How long the inputs are as code; inputs that are not shown as code, or not at all, come last."""
    _, separator, inputs = (found.reason or "").partition(_INPUTS)
    return len(inputs) if separator and " = np." in inputs else 10_000
