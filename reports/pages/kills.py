"""Makes the kill matrix: it shows which check caught which broken kernel."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from reports.pages.rows import CellRow, by_run_and_platform, cell_rows
from reports.pages.run_notes import platform_name, run_notes
from reports.records.record import Record
from reports.records.status import Status
from reports.render.layout import Column, Row, Style, Table, Text

LETTERS = {
    Status.WRONG_VALUE: "v",
    Status.WRONG_SHAPE: "s",
    Status.WRONG_DTYPE: "d",
    Status.INPUT_MUTATED: "m",
    Status.OUT_OF_BOUNDS: "b",
    Status.UNWRITTEN_OUTPUT: "u",
    Status.NONDETERMINISTIC: "n",
    Status.COMPILE_ERROR: "c",
    Status.RUNTIME_ERROR: "r",
    Status.CRASHED: "x",
    Status.TIMEOUT: "t",
    Status.OOM: "o",
    Status.LEAKED: "l",
    Status.UNCHECKED: "?",
}
"""The letter of each failure in a matrix."""


def kill_tables(records: Iterable[Record], checks: Mapping[str, str], faults: Mapping[str, str]) -> list[Table]:
    """Returns, for each run and platform, the matrix, then the number of broken kernels that each check caught.

    Args:
        records: The records of a validation of broken operators.
        checks: The purpose of each check, in the order of the matrix.
        faults: The fault of each operator.
    """
    tables = []
    for rows in by_run_and_platform(cell_rows(records)):
        caught: dict[str, dict[str, str]] = defaultdict(dict)
        for row in rows:
            if row.status.wrong:
                letters = caught[row.cell.operator].setdefault(row.cell.mode, "")
                letter = LETTERS[row.status]
                caught[row.cell.operator][row.cell.mode] = letters if letter in letters else letters + letter
        numbers = {name: str(number) for number, name in enumerate(checks, start=1)}
        tables += [_matrix(rows, caught, numbers, faults), _by_check(rows, caught, numbers, checks)]
    return tables


def _matrix(
    rows: Sequence[CellRow],
    caught: Mapping[str, Mapping[str, str]],
    numbers: Mapping[str, str],
    faults: Mapping[str, str],
) -> Table:
    backends = {row.cell.operator: row.cell.backend for row in rows if row.status is not Status.SKIPPED}
    made = {(row.cell.operator, row.cell.mode): "\N{MIDDLE DOT}" for row in rows if row.status is not Status.SKIPPED}
    unjudged = [row for row in rows if row.status.failed and not row.status.wrong]
    made |= {(row.cell.operator, row.cell.mode): LETTERS[row.status] for row in unjudged}
    columns = [Column("mutant", align="left"), Column("backend", align="left"), Column("fault", align="left")]
    columns += [Column(number, "check", align="left") for number in numbers.values()]
    lines = []
    for name, backend in sorted(backends.items()):
        kills = caught.get(name, {})
        verdicts = [
            Text(kills[check], Style.BEST if len(kills) == 1 else Style.PLAIN)
            if check in kills
            else Text(made.get((name, check), ""), Style.FAINT)
            for check in numbers
        ]
        style = Style.PLAIN if kills else Style.BAD
        lines.append(Row((Text(name, style), Text(backend), Text(faults.get(name, "")), *verdicts)))
    alive = [name for name in sorted(backends) if name not in caught]
    letters = ", ".join(f"{letter} {status}" for status, letter in LETTERS.items())
    notes = [
        f"letters say how a check failed: {letters}; \N{MIDDLE DOT}: it passed; "
        f"{LETTERS[Status.OOM]} and {LETTERS[Status.UNCHECKED]} catch nothing",
        "checks: " + ", ".join(f"{number} {name}" for name, number in numbers.items()),
        f"{len(backends)} mutants, {len(backends) - len(alive)} caught"
        + (f"; survived: {', '.join(alive)}" if alive else ""),
        *run_notes(rows),
    ]
    title, best = f"Mutants on {platform_name(rows)}", "no other check caught it"
    return Table(title, tuple(columns), tuple(lines), tuple(notes), best=best)


def _by_check(
    rows: Sequence[CellRow],
    caught: Mapping[str, Mapping[str, str]],
    numbers: Mapping[str, str],
    checks: Mapping[str, str],
) -> Table:
    columns = (
        Column("check"),
        Column("name", align="left"),
        Column("caught", "mutants"),
        Column("alone", "mutants"),
        Column("first of these, or the purpose of the check", "", align="left"),
    )
    lines = []
    for check, number in numbers.items():
        own = [name for name, kills in caught.items() if check in kills]
        alone = sorted(name for name in own if len(caught[name]) == 1)
        texts = (number, check, str(len(own)), str(len(alone)), alone[0] if alone else checks[check])
        lines.append(Row(tuple(Text(text) for text in texts)))
    notes = ("alone: mutants that no other check caught",)
    return Table(f"Checks of the mutants on {platform_name(rows)}", columns, tuple(lines), notes)
