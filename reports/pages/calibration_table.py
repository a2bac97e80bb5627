"""Makes the table, the frame and the picture of simulated comparisons."""

from collections.abc import Sequence

import pandas as pd

from reports.render.curves import Curve, Panel
from reports.render.layout import Column, Row, Style, Table, Text
from reports.render.units import count_text, percent_text
from reports.statistics.calibration import Calibration

MOST_ALARMS = 0.01
"""The largest share of comparisons of equal revisions that may call a cell SLOWER."""

MOST_MISSED = 0.05
"""The largest share of slowdowns that may be missed."""


def calibration_table(found: Sequence[Calibration], title: str, notes: Sequence[str]) -> Table:
    """Returns a row per number of processes: false alarms, what cells of equal revisions are called, and what is found.

    Args:
        found: What was simulated.
        title: What the noise is of, such as a platform and a device.
        notes: Where the noise comes from, and the limits.
    """
    sizes = list(found[0].found)
    columns = (
        Column("processes"),
        *(Column(name, "equal: any cell, %") for name in ("SLOWER", "FASTER")),
        *(Column(name, "equal: cells, %") for name in ("SAME", "undecided")),
        *(Column(f"{percent_text(size)}%", "slowdown found, %") for size in sizes),
    )
    rows = []
    for one in found:
        alarms = one.slower / one.runs
        texts = [Text(count_text(one.processes))]
        texts += [Text(percent_text(alarms), Style.BAD if alarms > MOST_ALARMS else Style.PLAIN)]
        texts += [Text(percent_text(share)) for share in (one.faster / one.runs, one.same, one.undecided)]
        texts += [
            Text(percent_text(share), Style.BEST if share >= 1 - MOST_MISSED else Style.PLAIN)
            for share in one.found.values()
        ]
        rows.append(Row(tuple(texts)))
    said = (
        f"{count_text(found[0].runs)} simulated comparisons of equal revisions for each number of processes of a side",
        "any cell: comparisons in which a cell was called so, which is false",
        "undecided: cells in which a large difference was not ruled out",
        "slowdown found: one cell of head takes this much longer, and is called SLOWER",
        *notes,
    )
    return Table(
        f"False alarms and slowdowns found: {title}", columns, tuple(rows), said,
        best=f"at least {percent_text(1 - MOST_MISSED)} % found",
    )  # fmt: skip


def calibration_frame(found: Sequence[Calibration]) -> pd.DataFrame:
    """Returns a row per number of processes and slowdown, in shares. The slowdown 0 is the comparison of equals."""
    rows = []
    for one in found:
        for size, share in {0.0: one.slower / one.runs, **one.found}.items():
            rows.append({"processes": one.processes, "slowdown": size, "slower": share, "comparisons": one.runs})
            if not size:
                rows[-1] |= {"faster": one.faster / one.runs, "same": one.same, "undecided": one.undecided}
    return pd.DataFrame(rows)


def calibration_panels(found: Sequence[Calibration]) -> list[Panel]:
    """Returns the two curves: false alarms by the number of processes, and slowdowns found, a curve for each size."""
    alarms = Curve("SLOWER", [(one.processes, 100 * one.slower / one.runs) for one in found])
    other = Curve("FASTER", [(one.processes, 100 * one.faster / one.runs) for one in found])
    power = [
        Curve(f"{percent_text(size)} %", [(one.processes, 100 * one.found[size]) for one in found])
        for size in found[0].found
    ]
    head = "of comparisons of equal revisions, % with a false verdict"
    return [
        Panel(head, "processes of each side", [alarms, other], limit=100 * MOST_ALARMS),
        Panel("of slowdowns, % found", "processes of each side", power, limit=100 * (1 - MOST_MISSED)),
    ]
