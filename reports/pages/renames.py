"""Suggests which kernel that head lacks became which new one."""

from collections.abc import Sequence

from reports.pages.compare import Comparison
from reports.statistics.verdict_codes import Code, Verdict


def rename_notes(comparisons: Sequence[Comparison]) -> list[str]:
    """Returns a note for each kernel whose cells are all MISSING where another kernel is NEW with the same cells."""
    kernels: dict[tuple[str, str], list[Comparison]] = {}
    for one in comparisons:
        kernels.setdefault((one.cell.operator, one.cell.backend), []).append(one)

    def whole(verdict: Verdict) -> dict[tuple[str, str], set[object]]:
        """Returns the cells of the kernels of which every cell is absent on one side."""
        return {
            kernel: {_shape(one) for one in own}
            for kernel, own in kernels.items()
            if all((one.verdict, one.code) == (verdict, Code.ABSENT) for one in own)
        }

    notes, fresh = [], whole(Verdict.NEW)
    for old, cells in whole(Verdict.MISSING).items():
        new = next((new for new, own in fresh.items() if own == cells and (old[0] == new[0] or old[1] == new[1])), None)
        if new is not None:
            del fresh[new]
            notes.append(
                f"MISSING {old[0]}, {old[1]} may be the NEW {new[0]}, {new[1]}, which has the same cells: rename it in"
                f" a commit of its own, or allow {'-'.join(old)}-* in the policy of the gate"
            )
    return notes


def _shape(one: Comparison) -> object:
    cell = one.cell
    return cell.platform, cell.mode, cell.dtype, cell.size, cell.params_text
