"""Says how well a second run repeats a first one: ratios to the baseline, and winners."""

from collections.abc import Iterable

from reports.pages.first_places import Contest, contests
from reports.pages.phrases import cells_text, ids_text
from reports.pages.rows import BASELINE, CellRow, cell_rows
from reports.records.cell import CellKey
from reports.records.record import Record
from reports.render.units import count_text, percent_text

AGREES = 0.05
"""Two ratios agree if the larger is at most this share larger."""


def repeatability_notes(base: Iterable[Record], head: Iterable[Record]) -> list[str]:
    """Returns in how many cells the ratios to the baseline agree, and which contests have other winners.

    A winner has changed if no cell is among the fastest of a contest in both runs: a tie that becomes a sole winner, or
    the other way round, is no change. Only what both runs have counts.
    """
    sides = [cell_rows(records) for records in (base, head)]
    ratios = [_ratios(rows) for rows in sides]
    both = [(ratios[0][key], ratios[1][key]) for key in ratios[0] if key in ratios[1]]
    notes = []
    if both:
        agree = sum(max(one, other) <= (1 + AGREES) * min(one, other) for one, other in both)
        notes.append(
            f"repeatability: the ratios to {BASELINE} of both runs agree within {percent_text(AGREES)}% in"
            f" {count_text(agree)} of {cells_text(len(both))}"
        )
    first, second = (contests(rows) for rows in sides)
    common = [key for key in first if key in second]
    if common:
        changed = [
            first[key].winners[0].cell.id for key in common if not _backends(first[key]) & _backends(second[key])
        ]
        rows = f"{count_text(len(common))} row{'' if len(common) == 1 else 's'}"
        text = f"{count_text(len(changed))} of {rows} have another winner"
        notes.append(f"repeatability: {text}" + (f" ({ids_text(changed)})" if changed else ""))
    return notes


def _ratios(rows: Iterable[CellRow]) -> dict[CellKey, float]:
    return {row.cell.key: row.ratio for row in rows if row.ratio is not None and row.cell.backend != BASELINE}


def _backends(contest: Contest) -> set[str]:
    return {row.cell.backend for row in contest.winners}
