"""Groups failures by kernel: the most specific cause, the smallest inputs, and the command to repeat it."""

import shlex
from collections.abc import Iterable, Sequence

from reports.pages.phrases import cells_text
from reports.records.cell_result import CellResult
from reports.records.record import Record
from reports.records.status import Status

CAUSES: dict[Status, str] = {
    Status.COMPILE_ERROR: "does not compile", Status.UNWRITTEN_OUTPUT: "leaves elements unwritten",
    Status.OUT_OF_BOUNDS: "goes out of bounds", Status.CRASHED: "crashes", Status.INPUT_MUTATED: "changes an input",
    Status.NONDETERMINISTIC: "gives other results each time", Status.RUNTIME_ERROR: "raises",
    Status.WRONG_SHAPE: "has the wrong shape", Status.WRONG_DTYPE: "has the wrong dtype",
    Status.WRONG_VALUE: "is wrong", Status.TIMEOUT: "takes too long", Status.OOM: "runs out of memory",
    Status.UNCHECKED: "could not be judged",
}  # fmt: skip
"""The causes as text, the most specific first."""

IMPRECISE = "is imprecise"
MOST_IMPRECISE = 100.0
"""If a result exceeds its bound by less than this factor, it is called imprecise rather than wrong."""

LONGEST = 300
"""Most characters of a reason."""

_INPUTS = "; inputs: "


def kernel_failures(records: Iterable[Record]) -> list[tuple[str, str, str, str]]:
    """Returns the kernels that failed in some records, each once for its checks and once for its times.

    Returns:
        For each: what `failure_of` returns, and when the run of its failure started.
    """
    kernels: dict[tuple[str, str, bool], list[Record]] = {}
    for record in records:
        if record.status.failed:
            is_check = record.run.profile.startswith("validate")
            kernels.setdefault((record.cell.operator, record.cell.backend, is_check), []).append(record)
    found = []
    for (_, _, is_check), several in kernels.items():
        run = min(several, key=_rank).run
        command = ("kernel-bridge", "validate" if is_check else "bench", *(run.selection or {}).get("source", []))
        found.append((*failure_of(several, command), run.started))
    return found


def failure_of(several: Sequence[CellResult], command: Sequence[str]) -> tuple[str, str, str]:
    """Returns what is wrong with one kernel: its name, why it failed and in which checks, and the command to repeat it.

    Args:
        several: Its results that failed.
        command: The command that repeats a check or a benchmark, with the files of operators.
    """
    best = min(several, key=_rank)
    cell, cause = best.cell, IMPRECISE if _is_imprecise(best) else CAUSES[best.status]
    reason = " ".join((best.reason or "without a message").split())
    reason = reason if len(reason) <= LONGEST else reason[:LONGEST] + "..."
    dtypes = list(dict.fromkeys(finding.cell.dtype for finding in (best, *several)))
    words = [*command, "--operator", cell.operator, "--backend", cell.backend]
    words += [word for dtype in dtypes for word in ("--dtype", dtype)]
    words += ["--device", cell.platform] if cell.platform != "cpu" else []
    if "validate" in command:
        words.append("-v")
        checks = list(dict.fromkeys(finding.cell.mode for finding in several))
        by = f"{len(checks)} checks: {', '.join(checks[:4])}{', ...' if len(checks) > 4 else ''}"
        by = by if len(checks) > 1 else f"check {checks[0]}"
    else:
        by = cells_text(len(several))
    name = f"{cell.operator} {cell.backend} {' '.join(dtypes)}"
    return name, f"{cause}: {reason} ({by})", shlex.join(words)


def _rank(finding: CellResult) -> tuple[int, bool, bool, int, int]:
    status = list(CAUSES).index(finding.status)
    has_no_cause = getattr(finding, "cause", None) is None  # a finding of a session may have one
    return status, _is_imprecise(finding), has_no_cause, _length_of_inputs(finding), len(finding.reason or "")


def _is_imprecise(finding: CellResult) -> bool:
    used = finding.accuracy.budget_used if finding.accuracy else None
    return finding.status is Status.WRONG_VALUE and used is not None and used < MOST_IMPRECISE


def _length_of_inputs(finding: CellResult) -> int:
    """Returns the length of the inputs as code; a large number for inputs that are not shown as code."""
    _, separator, inputs = (finding.reason or "").partition(_INPUTS)
    return len(inputs) if separator and " = np." in inputs else 10_000
