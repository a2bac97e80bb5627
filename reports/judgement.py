"""Judges a recorded run: its exit code, and its missing and damaged parts."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from reports.options import Exit
from reports.pages.rows import BASELINE
from reports.records.cell import Cell
from reports.records.record import Record, last_by_cell
from reports.records.run_file import RunFile
from reports.records.status import Status

_NAMED = 3


@dataclass(frozen=True)
class Judgement:
    """The result of a run.

    Attributes:
        exit: WRONG if a cell is wrong, FINE if everything was checked and passed, else COULD_NOT_RUN.
        lines: Why it is COULD_NOT_RUN, a sentence each; in a run with wrong cells, its damaged and missing parts.
        notes: Notes on a run that is fine.
    """

    exit: Exit
    lines: tuple[str, ...]
    notes: tuple[str, ...] = ()


def judge(
    run: RunFile, records: Sequence[Record] | None = None, *, selects: Callable[[Cell], bool] = lambda _: True,
    has_ended: bool = False,
) -> Judgement:  # fmt: skip
    """Judges a run.

    Args:
        run: The run.
        records: The records that count; all of them by default.
        selects: Tells whether an expected cell counts.
        has_ended: Whether the session has ended, although its last line is not written yet.

    Raises:
        TypeError: ``run`` is no run file.
    """
    if not isinstance(run, RunFile):
        raise TypeError(f"judge got a {type(run).__name__}, expected what load_run returns.")
    counting = last_by_cell(run.records if records is None else records)
    lines = [f"DAMAGED: {problem}" for problem in run.problems]
    lines += _incomplete(run, selects, has_ended=has_ended)
    lines += _doubts(run, counting, selects)
    wrong = any(record.status.wrong for record in counting)
    if not counting:
        lines.append("no cell has a result")
    if not (lines or wrong) and run.end is not None and run.end.exit != Exit.FINE:
        lines.append(f"the session itself ended with exit code {run.end.exit}")
    if not lines and not any(record.status is not Status.SKIPPED for record in counting):
        lines.append("nothing was checked: all cells were skipped")
    notes = []
    if run.deselected:
        notes.append(f"{run.deselected:,} cells were left out by options of pytest, such as -k")
    return Judgement(Exit.WRONG if wrong else Exit.COULD_NOT_RUN if lines else Exit.FINE, tuple(lines), tuple(notes))


def _doubts(run: RunFile, counting: Sequence[Record], selects: Callable[[Cell], bool]) -> list[str]:
    """Returns why the cells of a run do not prove that its kernels are right, a sentence each."""
    lines = _unjudged(counting)
    lines += [
        f"{operator}, {backend} was not checked: all of its cells were skipped, though it can run here"
        for operator, backend in ([] if run.deselected else run.idle_kernels)  # -k may leave out the other cells
        if any(selects(cell) for cell in run.expected.values() if (cell.operator, cell.backend) == (operator, backend))
    ]
    shown = {record.cell.operator for record in counting}
    idle = [operator for operator in _idle_operators(last_by_cell(run.records)) if operator in shown]
    if idle and not any(operator in line for operator in idle for line in lines):
        lines.append(
            f"no kernel of {', '.join(idle)} ran on {counting[0].cell.platform}; kernel-bridge list shows why. Choose"
            " another --device, or leave the operator out with --operator."
        )
    return lines


def _incomplete(run: RunFile, selects: Callable[[Cell], bool], *, has_ended: bool) -> list[str]:
    if not run.missing and (has_ended or run.end):
        return []
    missing = [cell for cell in run.missing if selects(cell)]
    if not missing:
        return [f"INCOMPLETE: the session ended early; it recorded {len(run.records):,} cells"]
    names = ", ".join(_text(cell) for cell in missing[:_NAMED]) + (", ..." if len(missing) > _NAMED else "")
    return [f"INCOMPLETE: {len(missing):,} of {len(run.expected):,} cells are missing: {names}"]


def _idle_operators(counting: Sequence[Record]) -> list[str]:
    """Returns the operators of which only the reference ran; of built-in operators, only if no kernel of any ran."""
    ran: dict[str, bool] = {}
    is_users = False
    for record in counting:
        selection = record.run.selection or {}
        is_users |= bool(selection.get("source"))
        backend, selected = record.cell.backend, selection.get("backend", [])
        is_kernel = backend in selected or (backend != BASELINE and backend not in record.run.peers)
        operator = record.cell.operator
        ran[operator] = ran.get(operator, False) or (is_kernel and record.status is not Status.SKIPPED)
    idle = [operator for operator, has_run in ran.items() if not has_run]
    return idle if is_users or len(idle) == len(ran) else []


def _unjudged(counting: Sequence[Record]) -> list[str]:
    unjudged = [record for record in counting if record.status.failed and not record.status.wrong]
    if not unjudged:
        return []
    first = unjudged[0]
    reason = " ".join((first.reason or "").split())
    count = f"{len(unjudged):,} cells" if len(unjudged) > 1 else "1 cell"
    return [f"{count} could not be judged, first {_text(first.cell)}: {first.status}: {reason[:200]}"]


def _text(cell: Cell) -> str:
    return " ".join([cell.id, *map(str, cell.params.values())])
