"""Names the commits since which cells are slower or faster, above the charts of their times."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from reports.pages.rows import CellRow
from reports.records.cell import CellKey
from reports.render.units import TIMES, ratio_text
from reports.statistics.lasting_changes import lasting_changes
from reports.statistics.verdict_codes import SMALLEST
from reports.web.markup import Markup, element


def lasting_list(history: Sequence[CellRow]) -> Markup | None:
    """Returns a list of the changes that stayed, the largest first; None without any.

    Args:
        history: The results of all runs of a device, the oldest first.
    """
    cells: dict[CellKey, list[CellRow]] = {}
    for row in history:
        if row.timing:
            cells.setdefault(msgspec.structs.replace(row.cell, operator_version=0).key, []).append(row)
    found = []
    for rows in cells.values():
        times = [row.timing.median_ns for row in rows if row.timing]
        for change in lasting_changes(times, SMALLEST[rows[0].cell.platform], len(cells)):
            run = rows[change.index].run
            commit = run.source.commit[:12] if run.source.commit else f"the run {run.run_id}"
            text = f"{rows[0].cell.id}: {ratio_text(change.ratio)}{TIMES} since {commit} ({run.started[:10]})"
            found.append((abs(1 - change.ratio), text))
    if not found:
        return None
    items = [element("li", None, text) for _, text in sorted(found, reverse=True)]
    return element("div", None, element("h3", None, "Changes that stayed"), element("ul", {"class": "lasting"}, items))
