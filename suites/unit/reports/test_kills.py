"""The kill matrix, and the broken kernels that no check caught."""

import pytest
from msgspec.structs import replace

from reports import judge, load_run
from reports.__main__ import main
from reports.options import Exit
from reports.pages.kills import LETTERS, kill_tables
from reports.records.broken_kernels import survivors
from reports.records.status import Status
from reports.render.layout import Style
from suites.unit.reports.builders import make_cell, make_record, make_run, whole

CHECKS = {"eager": "values", "vmap": "batches", "grad": "derivatives"}
FAULTS = {"add~a": "wrong", "add~b": "wrong in batches", "add~c": "fine after all"}


def checked(operator, mode, status=Status.PASSED, size=33):
    return make_record(make_cell(operator=operator, mode=mode, size=size), None, status=status)


RECORDS = [
    checked("add~a", "eager", Status.WRONG_VALUE),
    checked("add~a", "eager", Status.UNWRITTEN_OUTPUT, 257),
    checked("add~a", "vmap", Status.CRASHED),
    checked("add~b", "eager"),
    checked("add~b", "vmap", Status.WRONG_VALUE),
    checked("add~b", "vmap", Status.WRONG_VALUE, 257),
    checked("add~c", "eager"),
    checked("add~c", "vmap"),
    checked("add~d", "vmap", Status.SKIPPED),
]


def test_the_matrix_says_how_each_check_failed():
    matrix, _ = kill_tables(RECORDS, CHECKS, FAULTS)
    assert [[cell.text for cell in row.cells] for row in matrix.rows] == [
        ["add~a", "numba", "wrong", "vu", "x", ""],
        ["add~b", "numba", "wrong in batches", "·", "v", ""],
        ["add~c", "numba", "fine after all", "·", "·", ""],
    ]
    assert [column.header for column in matrix.columns][3:] == ["1", "2", "3"]
    assert "1 eager, 2 vmap, 3 grad" in "\n".join(matrix.notes)


def test_the_only_check_that_caught_a_mutant_stands_out():
    matrix, _ = kill_tables(RECORDS, CHECKS, FAULTS)
    assert [row.cells[4].style for row in matrix.rows] == [Style.PLAIN, Style.BEST, Style.FAINT]


def test_survivors_ran_and_were_not_caught():
    assert survivors(RECORDS) == ["add~c"]
    matrix, _ = kill_tables(RECORDS, CHECKS, FAULTS)
    assert "3 mutants, 2 caught; survived: add~c" in matrix.notes
    assert matrix.rows[2].cells[0].style is Style.BAD


def test_a_check_without_a_mutant_of_its_own_says_what_it_is_there_for():
    _, table = kill_tables(RECORDS, CHECKS, FAULTS)
    assert [[cell.text for cell in row.cells] for row in table.rows] == [
        ["1", "eager", "1", "0", "values"],
        ["2", "vmap", "2", "1", "add~b"],
        ["3", "grad", "0", "0", "derivatives"],
    ]


def test_every_way_to_fail_has_a_letter_of_its_own():
    assert set(LETTERS) == {status for status in Status if status.failed}
    assert len(set(LETTERS.values())) == len(LETTERS)


def test_a_cell_that_could_not_be_judged_catches_nothing():
    for status in (Status.UNCHECKED, Status.OOM, Status.SKIPPED):
        records = [
            make_record(make_cell(operator="m~a", mode="eager")),
            make_record(make_cell(operator="m~a", mode="vmap"), status=status, accuracy=None),
        ]
        assert survivors(records) == ["m~a"]


def run_of(folder, *records):
    """The file of a whole run of broken kernels. pytest ends with 1, as checks failed."""
    run = make_run(profile="validate quick", selection={"source": ["suites.mutants"]})
    path = folder / "20261120T190102-3f2a.jsonl"
    path.write_bytes(whole([replace(record, run=run) for record in records]).replace(b'"exit":0', b'"exit":1'))
    return path


CAUGHT = (checked("add~a", "eager", Status.WRONG_VALUE), checked("add~a", "vmap"))


@pytest.mark.parametrize(
    ("records", "code", "lines"),
    [
        (CAUGHT, Exit.FINE, 0),
        ((*CAUGHT, checked("add~b", "eager", Status.SKIPPED)), Exit.FINE, 0),
        ((*CAUGHT, checked("add~a", "grad", Status.UNCHECKED)), Exit.FINE, 0),
        ((*CAUGHT, checked("add~c", "eager")), Exit.WRONG, 0),
        ((*CAUGHT, checked("add~c", "eager", Status.UNCHECKED)), Exit.WRONG, 0),
        ((checked("add~b", "eager", Status.SKIPPED),), Exit.COULD_NOT_RUN, 1),
    ],
)
def test_a_run_of_broken_kernels_is_fine_if_each_that_ran_was_caught(tmp_path, records, code, lines):
    judgement = judge(load_run(run_of(tmp_path, *records)))
    assert (judgement.exit, len(judgement.lines)) == (code, lines)


def test_a_run_of_broken_kernels_that_was_cut_off_is_no_proof(tmp_path):
    path = run_of(tmp_path, *CAUGHT)
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:-2]))
    judgement = judge(load_run(path))
    assert judgement.exit is Exit.COULD_NOT_RUN
    assert judgement.lines[0].startswith("INCOMPLETE: 1 of 2 cells")


def test_show_shows_the_matrix_of_a_run_of_broken_kernels(tmp_path, capsys):
    path = run_of(tmp_path, *CAUGHT)
    assert main(["show", str(path), "--format", "markdown"]) == Exit.FINE
    shown = capsys.readouterr()
    assert "### Mutants on cpu" in shown.out
    assert "no proof" not in shown.out
    assert shown.err == ""
    assert (
        main(["show", str(run_of(tmp_path, *CAUGHT, checked("add~c", "eager"))), "--format", "markdown"]) == Exit.WRONG
    )
    assert "add\\~c" in capsys.readouterr().out
