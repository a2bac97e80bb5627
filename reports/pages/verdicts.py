"""Makes the tables of a validation: verdicts by operator and backend, then by check."""

import math
from collections import Counter
from collections.abc import Iterable, Sequence

import pandas as pd

from reports.pages.frame import BASELINE, by_run_and_platform
from reports.pages.groups import backend_order
from reports.pages.notes import FrameRow, count_note, device_name, outcome_counts, reason_notes, run_notes
from reports.records.record import Status
from reports.render.layout import Column, Row, Style, Table, Text
from reports.render.units import ABSENT, count_text, percent_text

PROFILE = "validate"
"""What the profile of a validation run begins with."""


def is_validation(frame: pd.DataFrame) -> bool:
    """Returns whether the cells are checks rather than times."""
    return bool(len(frame)) and all(str(profile).startswith(PROFILE) for profile in frame["profile"].unique())


def validation_tables(
    frame: pd.DataFrame,
    checks: Sequence[str] = (),
    baseline: str = BASELINE,
    reasons: int = 40,
    failures: bool = True,
) -> list[Table]:
    """Returns, for each run and platform, the verdicts by operator and backend; then by check.

    Args:
        frame: That of a validation run, see :func:`is_validation`.
        checks: The order of the checks; those it does not name follow.
        baseline: The backend that comes first.
        reasons: How many of the reasons for failures and skips are shown at most.
        failures: Whether the reasons of failures are among them.
    """
    tables = []
    for rows in by_run_and_platform(frame):
        tables += [_grid(rows, baseline, reasons, failures), _checks(rows, checks)]
    return tables


def _grid(rows: Sequence[FrameRow], baseline: str, reasons: int, failures: bool) -> Table:
    operators = sorted({row["operator"] for row in rows})
    backends = sorted({row["backend"] for row in rows}, key=lambda backend: backend_order(backend, baseline))
    columns = [Column("operator", align="left")]
    for backend in backends:
        columns += [
            Column("verdict", backend, align="left"),
            Column("budget%", backend),
            Column("cells", backend, drop=1),
        ]
    cells: dict[tuple[str, str], list[FrameRow]] = {}
    for row in rows:
        cells.setdefault((row["operator"], row["backend"]), []).append(row)
    lines = [
        Row((Text(operator), *(text for backend in backends for text in _verdict(cells.get((operator, backend), ())))))
        for operator in operators
    ]
    why = reason_notes([row for row in rows if failures or row["status"] == "SKIPPED"])
    notes = [
        "verdict: PASSED where every check passed, else the commonest failure",
        "budget%: largest share of the derived error bound that an element used in any check, in percent",
        "cells: checks made, and how many of them passed where not all did",
        count_note(rows),
        *why[:reasons],
        *([f"{len(why) - reasons} more reasons are in the records"] if len(why) > reasons else []),
        *run_notes(rows),
    ]
    return Table(f"Validation on {device_name(rows[0])}", tuple(columns), tuple(lines), tuple(notes))


def _verdict(rows: Sequence[FrameRow]) -> tuple[Text, Text, Text]:
    """Returns verdict, budget and count of the checks of one kernel."""
    counts = outcome_counts(row["status"] for row in rows)
    made = counts["passed"] + counts["failed"]
    if not made:
        return Text("SKIPPED" if rows else ABSENT, Style.FAINT), Text(ABSENT, Style.FAINT), Text("")
    if not counts["failed"]:
        return Text("PASSED"), Text(_budget(rows)), Text(count_text(made))
    failures = Counter(row["status"] for row in rows if Status(row["status"]).failed)
    worst = failures.most_common(1)[0][0]
    return Text(worst, Style.BAD), Text(_budget(rows), Style.BAD), Text(f"{counts['passed']}/{made}", Style.BAD)


def _checks(rows: Sequence[FrameRow], order: Sequence[str]) -> Table:
    found: dict[str, list[FrameRow]] = {name: [] for name in order}
    for row in rows:
        found.setdefault(row["mode"], []).append(row)
    columns = (
        Column("check", align="left"),
        *(Column(name, "cells") for name in ("passed", "failed", "skipped")),
        Column("budget%", "most used"),
        Column("by", "most used", align="left"),
    )
    lines = []
    for name, own in found.items():
        if not own:
            continue
        counts = outcome_counts(row["status"] for row in own)
        used = [row for row in own if not math.isnan(row["budget_used"])]
        worst = max(used, key=lambda row: float(row["budget_used"]), default=None)
        lines.append(
            Row(
                (
                    Text(name),
                    Text(count_text(counts["passed"])),
                    Text(count_text(counts["failed"]), Style.BAD if counts["failed"] else Style.PLAIN),
                    Text(count_text(counts["skipped"]), Style.FAINT),
                    Text(_budget(own)),
                    Text(_kernel(worst) if worst else ""),
                )
            )
        )
    return Table(f"Checks on {device_name(rows[0])}", columns, tuple(lines))


def _budget(rows: Iterable[FrameRow]) -> str:
    shares = [float(row["budget_used"]) for row in rows if not math.isnan(row["budget_used"])]
    return percent_text(max(shares)) if shares else ABSENT


def _kernel(row: FrameRow) -> str:
    return f"{row['operator']}, {row['backend']}, {row['dtype']}"
