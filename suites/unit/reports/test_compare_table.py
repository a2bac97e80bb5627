"""Comparisons as a table."""

from reports.pages.compare import compare
from reports.pages.compare_table import comparison_table
from reports.pages.repeatability import repeatability_notes
from reports.records.header import Source
from reports.records.status import Status
from reports.render.layout import Style
from suites.unit.reports.builders import make_cell, make_pair, make_record, make_run


def test_times_ratio_and_verdict_of_each_cell():
    base = [make_record(make_cell(size=1), 1000.0), make_record(make_cell(size=2))]
    head = [
        make_record(make_cell(size=1), 1500.0),
        make_record(make_cell(size=2), status=Status.CRASHED, reason="full"),
    ]
    table = comparison_table(compare(base, head, interleaved=True), make_run(), make_run(), interleaved=True)
    nothing = "\N{EN DASH}"
    assert [[text.text for text in row.cells] for row in table.rows] == [
        ["f32", "1", "numba", "1.00 µs", "1.50 µs", "1.50", "1.46\N{EN DASH}1.55", "3.2", "SLOWER"],
        ["f32", "2", "numba", "1.00 µs", nothing, nothing, nothing, nothing, "WRONG FAILED"],
    ]
    assert table.rows[0].cells[-1].style is Style.BAD
    assert table.rows[1].cells[-1].style is Style.BAD
    assert "WRONG FAILED: head CRASHED: full (lif_step-numba-f32-2-cpu)" in table.notes
    assert "geometric mean of the ratio: 1.50 over 1 cell that was compared; 1 SLOWER in head" in table.notes
    assert "cells: 1 SLOWER, 1 WRONG" in table.notes


def test_notes_say_what_the_sides_are_and_which_versions_differ():
    base = make_run(run_id="one", versions={"jax": "0.10.2", "numba": "0.68.1"})
    head = make_run(run_id="two", versions={"jax": "0.11.2", "numba": "0.68.1"}, source=Source())
    table = comparison_table([], base, head)
    assert table.title == "Comparison of one (base) and two (head)"
    assert "versions that differ: jax 0.10.2 → 0.11.2" in table.notes
    assert any(note.startswith("head: commit unknown") for note in table.notes)
    assert "geometric mean: none, no cell was compared" in table.notes


def test_notes_say_how_well_a_run_repeats_another():
    base = [*make_pair(1000.0, 500.0, size=1), *make_pair(1000.0, 500.0, size=2), *make_pair(1000.0, 1005.0, size=3)]
    head = [*make_pair(1000.0, 510.0, size=1), *make_pair(1000.0, 2000.0, size=2), *make_pair(1000.0, 500.0, size=3)]
    assert repeatability_notes(base, head) == [
        "repeatability: the ratios to jnp of both runs agree within 5.0% in 1 of 3 cells",
        "repeatability: 1 of 3 rows have another winner (lif_step-numba-f32-2-cpu)",
    ]
    assert repeatability_notes(base, []) == []


def test_equal_reasons_are_gathered():
    head = [make_record(make_cell(size=size), seed=1) for size in (1, 2)]
    base = [make_record(make_cell(size=size)) for size in (1, 2)]
    table = comparison_table(compare(base, head), make_run(), make_run())
    assert table.notes[-1] == ("NOT_COMPARABLE SEED: seed: base 0, head 1 (2 cells, first lif_step-numba-f32-1-cpu)")
