"""Comparisons of two runs, cell by cell, and their table."""

import msgspec
import pytest

from reports.pages.alike import differences
from reports.pages.compare import compare
from reports.pages.compare_table import comparison_frame, comparison_table, verdict_lines
from reports.pages.renames import rename_notes
from reports.records.measurements import ProcessTimes
from reports.records.status import Status
from reports.render.layout import Style
from reports.render.units import TIMES
from reports.statistics.verdict_codes import Code, Verdict
from suites.unit.reports.builders import FLAGS, HOST, make_cell, make_pair, make_record, make_run, make_timing

WRONG = {"status": Status.WRONG_VALUE, "reason": "got 1, truth 2"}
CRASHED = {"status": Status.CRASHED, "reason": "exit code -11"}
SKIPPED = {"status": Status.SKIPPED, "reason": "no GPU"}
OOM = {"status": Status.OOM, "reason": "no memory"}


def only(base, head, **options):
    (comparison,) = compare(base, head, **{"interleaved": True, **options})
    return comparison


def test_partners_are_found_by_their_block():
    def timing(times):
        own = [ProcessTimes(samples_ns=(time,), block=block) for block, time in times.items()]
        return make_timing(processes=own)

    # Each block has a state of the machine of its own; by order alone, the sides would differ wildly.
    base = make_record(timing=timing({0: 1000.0, 1: 4000.0, 2: 16000.0, 4: 500.0}))
    head = make_record(timing=timing({1: 4002.0, 2: 15990.0, 0: 1001.0, 3: 9.0}))
    assert only([base], [head]).verdict is Verdict.SAME


UNSTEADY = {"timing": make_timing(program_ns=(90_000.0,), samples_ns=(1000.0,), loops=10)}


@pytest.mark.parametrize(
    ("base", "head", "verdict", "code", "undecided"),
    [
        ({}, WRONG, Verdict.BROKEN, Code.FAILED, False),
        (WRONG, {}, Verdict.FIXED, Code.FAILED, False),
        # A base that crashed decides nothing.
        (CRASHED, {}, Verdict.NOT_COMPARABLE, Code.UNJUDGED, True),
        ({}, OOM, Verdict.NOT_COMPARABLE, Code.UNJUDGED, True),
        ({}, None, Verdict.MISSING, Code.ABSENT, True),
        ({}, SKIPPED, Verdict.MISSING, Code.SKIPPED, True),
        (SKIPPED, {}, Verdict.NEW, Code.SKIPPED, False),
        (SKIPPED, SKIPPED, Verdict.NOT_COMPARABLE, Code.SKIPPED, False),
        ({"median_ns": None}, {}, Verdict.NOT_COMPARABLE, Code.UNTIMED, True),
        ({}, UNSTEADY, Verdict.NOT_COMPARABLE, Code.NOT_STEADY, True),
        ({}, {"seed": 1}, Verdict.NOT_COMPARABLE, Code.CONDITIONS, True),
    ],
)
def test_cells_whose_times_are_not_compared(base, head, verdict, code, undecided):
    sides = [[] if fields is None else [make_record(**fields)] for fields in (base, head)]
    comparison = only(*sides)
    assert (comparison.verdict, comparison.code) == (verdict, code)
    assert comparison.is_undecided is undecided
    assert comparison.is_bad is (verdict is Verdict.BROKEN)
    assert not comparison.is_compared
    assert comparison.reason


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"host": msgspec.structs.replace(HOST, cores=8)}, ["cores: base 4, head 8"]),
        ({"host": msgspec.structs.replace(HOST, threads={"numba": 1})}, ["threads numba: base 2, head 1"]),
        ({"flags": {**FLAGS, "interleaved": "20261120T000000-0000"}}, []),
        ({"versions": {"jax": "0.11"}}, []),
    ],
)
def test_runs_of_other_machines_and_settings_are_told_apart(changes, words):
    assert differences(make_record(), make_record(run=make_run(**changes))) == words


def test_the_table_and_the_frame_have_each_cell_with_its_verdict():
    base = [*make_pair(1000.0, 500.0), make_record(make_cell(size=1), 100.0)]
    head = [*make_pair(1000.0, 1500.0), make_record(make_cell(size=1), **WRONG)]
    cupy = [make_record(make_cell(backend="cupy"), run=make_run(peers={"cupy": "cupy 14"}))]
    found = compare(base + cupy, head + cupy, interleaved=True)
    assert {one.cell.backend for one in found} == {"numba"}, "jnp and other libraries take no part"
    run = make_run()
    table = comparison_table(found, run, make_run(versions={"jax": "0.11.0"}), interleaved=True)
    texts = [[text.text for text in row] for row in table.rows]
    assert [(row[2], row[-1]) for row in texts] == [("1", "BROKEN FAILED"), ("4,096", "SLOWER")]
    assert texts[1][4:7] == ["500 ns", "1.50 µs", "3.00"]
    assert found[0].low < 3.0 < found[0].high
    assert {row[-1].style for row in table.rows} == {Style.BAD}
    notes = "\n".join(table.notes)
    for said in ("over the pairs of processes", "worth a verdict: 5.0% on cpu", "1 SLOWER in head", "jax 0.10.2 → ",
                 "1 SLOWER, 1 BROKEN", "head WRONG_VALUE: got 1, truth 2"):  # fmt: skip
        assert said in notes
    frame = comparison_frame(found).set_index("size")
    assert frame.loc[4096, "verdict"] == "SLOWER"
    assert frame.loc[4096, "ratio"] == pytest.approx(3.0)
    assert "sessions" in comparison_table(compare(base, head), run, run).notes[0]


def test_the_worst_cells_come_first_and_the_last_lines_name_them():
    base = [make_record(make_cell(operator=name), 1000.0) for name in ("a", "b", "c", "d")]
    slow = {"b": 2000.0, "c": 5000.0}
    head = [make_record(make_cell(operator=name), slow.get(name, 1000.0)) for name in ("a", "b", "c")]
    head += [make_record(make_cell(operator="d"), **WRONG)]
    found = compare(base, head, interleaved=True)
    rows = comparison_table(found, make_run(), make_run(), interleaved=True).rows
    assert [row[0].text for row in rows] == ["d", "c", "b", "a"]
    assert verdict_lines(found) == [
        f"SLOWER: 2 cells: c-numba-f32-4096-cpu 5.00{TIMES}, b-numba-f32-4096-cpu 2.00{TIMES}",
        "BROKEN: d-numba-f32-4096-cpu",
        "cells: 1 SAME, 2 SLOWER, 1 BROKEN",
    ]


@pytest.mark.parametrize("interleaved", [False, True])
def test_the_printed_times_divide_to_the_printed_ratio(interleaved):
    """Times with two modes: the medians are 1300 and 3300 ns, though the pairs differ by 40 %."""
    base = make_record(make_cell(), timing=make_timing(1.0, [1300, 1280, 1310, 3200, 3250]))
    head = make_record(make_cell(), timing=make_timing(1.0, [1310, 1290, 3300, 3310, 3350]))
    (found,) = compare([base], [head], interleaved=interleaved)
    assert found.ratio < 1.5
    assert found.head_ns / found.base_ns == pytest.approx(found.ratio)


def test_a_renamed_kernel_is_suggested():
    def records(*kernels):
        return [make_record(make_cell(operator=name, size=size)) for name, sizes in kernels for size in sizes]

    base = records(("old", (1, 2)), ("other", (1,)), ("stays", (1, 2)))
    head = records(("new", (1, 2)), ("else", (1, 2, 3)), ("stays", (1, 2)))
    (note,) = rename_notes(compare(base, head))
    assert note.startswith("MISSING old, numba may be the NEW new, numba")
