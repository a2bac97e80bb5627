"""Verdicts by operator and backend, and by check."""

from reports.pages.verdicts import is_validation, validation_tables
from reports.records.measurements import Accuracy
from reports.records.status import Status
from reports.render.units import ABSENT
from suites.unit.reports.builders import make_cell, make_record, make_run

RUN = make_run(profile="validate full")


def checked(backend, mode="eager", status=Status.PASSED, used=0.25, reason="because", size=4096):
    accuracy = None if used is None else Accuracy(budget_used=used, max_ulp=1.0)
    cell = make_cell(backend=backend, mode=mode, size=size)
    why = None if status is Status.PASSED else reason
    return make_record(cell, None, RUN, status=status, accuracy=accuracy, reason=why)


RECORDS = [
    checked("jnp", used=0.125),
    checked("numba"),
    checked("numba", "vmap", used=0.5),
    checked("numba", "scan", used=None),
    checked("warp", used=0.25),
    checked("warp", "vmap", Status.WRONG_VALUE, 3.0, "element 1: far off"),
    checked("warp", "scan", Status.CRASHED, None, "worker gone"),
    checked("warp", "vmap", Status.WRONG_VALUE, 2.0, "element 0: off", size=47),
    checked("numba_parallel", "eager", Status.SKIPPED, None, "no float16"),
]


def grid():
    table, _ = validation_tables(RECORDS)
    (row,) = table.rows
    headers = [(column.group, column.header) for column in table.columns]
    return table, {header: cell.text for header, cell in zip(headers, row.cells, strict=True)}


def test_a_kernel_that_passed_shows_the_largest_share_of_its_budget():
    _, texts = grid()
    assert texts["", "operator"] == "lif_step"
    assert [texts["numba", name] for name in ("verdict", "budget%", "cells")] == ["PASSED", "50", "3"]


def test_one_that_failed_shows_the_commonest_failure_and_how_many_passed():
    _, texts = grid()
    assert [texts["warp", name] for name in ("verdict", "budget%", "cells")] == ["WRONG_VALUE", "300", "1/4"]


def test_one_that_could_not_run_is_no_success():
    _, texts = grid()
    assert [texts["numba_parallel", name] for name in ("verdict", "budget%", "cells")] == ["SKIPPED", ABSENT, ""]


def test_the_baseline_comes_first():
    table, _ = grid()
    assert list(dict.fromkeys(column.group for column in table.columns)) == [
        "", "jnp", "numba", "numba_parallel", "warp",
    ]  # fmt: skip


def test_every_reason_is_in_the_notes_and_a_limit_says_what_it_left_out():
    table, _ = grid()
    notes = "\n".join(table.notes)
    assert all(reason in notes for reason in ("element 1: far off", "worker gone", "no float16"))
    assert "5 passed, 3 failed, 1 skipped" in notes
    (short, _) = validation_tables(RECORDS, reasons=1)
    assert "3 more reasons are in the records" in "\n".join(short.notes)


def test_checks_are_counted_in_the_order_given():
    _, table = validation_tables(RECORDS, ["vmap", "eager", "grad"])
    assert [[cell.text for cell in row.cells] for row in table.rows] == [
        ["vmap", "1", "2", "0", "300", "lif_step, warp, float32"],
        ["eager", "3", "0", "1", "25", "lif_step, numba, float32"],
        ["scan", "1", "1", "0", ABSENT, ""],
    ]


def test_a_run_of_times_is_not_a_validation():
    assert is_validation(RECORDS)
    assert not is_validation([make_record()])
    assert not is_validation([])


def test_a_kernel_that_is_far_less_exact_than_xla_is_named_and_not_failed():
    same = [checked("jnp", used=0.004), checked("numba", used=0.3), checked("warp", used=0.1)]
    other = [checked("numba", "vmap", used=0.9), checked("cuda_raw", used=0.9, status=Status.WRONG_VALUE)]
    table, _ = validation_tables([*same, *other])
    named = [note for note in table.notes if note.startswith("less exact")]
    assert len(named) == 1
    assert named[0].startswith("less exact: lif_step numba float32 passed, but its error is 75 times as large as XLA's")


def test_the_error_of_xla_in_a_record_of_its_own_counts_first():
    accuracy = Accuracy(budget_used=0.6, reference_budget_used=0.0)
    record = make_record(make_cell(backend="numba"), None, RUN, status=Status.PASSED, accuracy=accuracy)
    table, _ = validation_tables([record])
    assert any("600 times" in note for note in table.notes)
