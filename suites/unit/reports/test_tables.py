"""Tables of times, accuracy and stages, and the summary."""

import pytest

from reports.pages.details import accuracy_tables, stage_tables
from reports.pages.times import benchmark_tables
from reports.records.measurements import Accuracy, ProcessTimes, Resources, Stages
from reports.records.status import Status
from reports.render.layout import Style
from reports.render.units import DASH
from suites.unit.reports.builders import GPU, make_cell, make_pair, make_record, make_run, make_timing


def times(records):
    return benchmark_tables(records)[0]


def summary(records):
    return benchmark_tables(records)[-1]


def texts(table, row=0):
    """Texts of a row by (group, header)."""
    return {(c.group, c.header): t for c, t in zip(table.columns, table.rows[row].cells, strict=True)}


def notes(table):
    return "\n".join([*table.notes, *(column.note for column in table.columns)])


RATIO = "\N{MULTIPLICATION SIGN}jnp"


def test_a_row_holds_a_cell_of_every_backend():
    table = times(make_pair(1000.0, 2500.0))
    assert len(table.rows) == 1
    row = texts(table)
    assert row["jnp", "time"].text == "1.00 µs"
    assert row["numba", "time"].text == "2.50 µs"
    assert row["numba", RATIO].text == "2.50"
    assert row["numba", "bw%"].text == "16"
    assert ("jnp", RATIO) not in row
    assert "above 1 is slower than jnp" in notes(table)


def test_rows_are_ordered_by_operator_dtype_and_size():
    cells = [
        ("b", "float32", 10), ("a", "float64", 5), ("a", "float32", 1000), ("a", "float32", 20),
    ]  # fmt: skip
    table = times([make_record(make_cell(operator=name, dtype=dtype, size=size)) for name, dtype, size in cells])
    assert [(row.group, row.cells[0].text, row.cells[1].text) for row in table.rows] == [
        ("a", "f32", "20"),
        ("a", "f32", "1,000"),
        ("a", "f64", "5"),
        ("b", "f32", "10"),
    ]


def test_the_fastest_that_passed_is_marked():
    row = texts(times(make_pair(1000.0, 500.0)))
    assert row["numba", "time"].style is Style.BEST
    assert row["jnp", "time"].style is Style.PLAIN


ROW = {
    "jnp": (1.0, 1.02, 0.98, 1.01, 0.99),
    "numba": (1.01, 1.0, 0.99, 0.99, 1.01),
    "warp": (1.4, 1.41, 1.39, 1.4, 1.42),
}
"""Times of three backends in five processes."""


def row_of(**across):
    """A table of one row; times of each backend in its processes."""
    cells = [(make_cell(backend=name), make_timing(across=own)) for name, own in across.items()]
    return times([make_record(cell, timing=timing) for cell, timing in cells])


def test_backends_that_cannot_be_told_apart_are_marked_alike():
    table = row_of(**ROW)
    row = texts(table)
    assert [row[name, "time"].style for name in ROW] == [Style.BEST, Style.BEST, Style.PLAIN]
    assert [row[name, "time"].text[0] for name in ROW] == ["=", "=", "1"]
    assert (row["numba", RATIO].text, row["warp", RATIO].text) == ("=1.01", "1.40")
    assert row["warp", "95%"].text == f"1.38{DASH}1.43"
    assert "tied" in table.best


def test_a_difference_below_the_smallest_effect_is_a_tie_however_certain():
    row = texts(row_of(jnp=ROW["jnp"], numba=[1.01 * one for one in ROW["jnp"]]))
    assert row["numba", "95%"].text == f"1.01{DASH}1.01"
    assert row["numba", RATIO].text == "=1.01"
    assert {row[name, "time"].style for name in ("jnp", "numba")} == {Style.BEST}


def test_a_noisy_cell_does_not_win():
    noisy = (0.5, 0.6, 0.7, 1.3, 1.5)
    assert texts(row_of(jnp=ROW["jnp"], numba=noisy))["numba", "time"].text[0] == "="


@pytest.mark.parametrize("count", [1, 2])
def test_with_few_processes_nobody_wins(count):
    table = row_of(jnp=[1.0] * count, numba=[0.5] * count)
    row = texts(table)
    assert {row[name, "time"].style for name in ("jnp", "numba")} == {Style.PLAIN}
    assert row["numba", RATIO].text == "0.50"
    assert "no cell was measured in 3 processes or more" in notes(table)
    assert "95%" not in {column.header for column in table.columns}
    assert "95%" in {column.header for column in row_of(**ROW).columns}


def test_the_spread_is_the_least_and_the_greatest_process():
    assert texts(row_of(**ROW))["warp", f"low{DASH}high"].text == f"1.39{DASH}1.42"


def test_cells_of_a_resumed_run_are_compared_unpaired():
    table = row_of(jnp=ROW["jnp"], numba=ROW["warp"][:3])
    assert texts(table)["numba", RATIO].text == "1.40"
    assert "cells of different numbers of processes come from a resumed run" in notes(table)


def test_a_time_that_the_program_decides_has_no_ratio_and_does_not_win():
    jnp, numba = make_pair(1000.0, 500.0)
    unsteady = ProcessTimes(samples_ns=[500.0], loops=2, program_ns=[5600.0])
    unsteady = make_timing(processes=[unsteady] * 5)
    table = times([jnp, make_record(numba.cell, timing=unsteady)])
    row = texts(table)
    assert row["numba", "time"].style is Style.PLAIN
    assert row["numba", RATIO].text == DASH
    assert "no ratio: the program around the calls decides the time of the kernel (lif_step-numba" in notes(table)


def test_nobody_wins_where_a_time_that_the_program_decides_may_be_shorter():
    unsteady = ProcessTimes(samples_ns=[500.0], loops=2, program_ns=[5600.0])
    slower = ProcessTimes(samples_ns=[5000.0], loops=2, program_ns=[56000.0])
    for process, style in ((unsteady, Style.PLAIN), (slower, Style.BEST)):
        warp = make_record(make_cell(backend="warp"), timing=make_timing(processes=[process] * 5))
        assert texts(times([*make_pair(2000.0, 1000.0), warp]))["numba", "time"].style is style


def test_no_ratio_across_methods_and_the_note_says_so():
    jnp = make_record(make_cell(backend="jnp"), timing=make_timing(method="cupti"))
    assert "no ratio: timed by wall, jnp by cupti (lif_step-numba" in notes(times([jnp, make_record()]))


def test_what_a_single_call_costs_has_a_table_if_it_was_recorded():
    process = ProcessTimes(samples_ns=[100.0], loops=10, program_ns=[3000.0], alone_ns=[9e3], alone_warm_ns=[8e3])
    timing = make_timing(processes=[process] * 3)
    tables = benchmark_tables([make_record(timing=timing), make_record(make_cell(size=1))])
    (table,) = [table for table in tables if table.title.startswith("What a single call costs")]
    row = {header: text.text for (_, header), text in texts(table).items()}
    assert row == {"dtype": "f32", "size": "4,096", "alone": "9.00 µs", "warm": "8.00 µs", "fixed": "2.00 µs"}
    assert len(table.rows) == 1, "the other cell has none of these facts"
    assert not [table for table in benchmark_tables([make_record()]) if table.title.startswith("What a single")]


def test_memory_and_energy_are_beside_the_first_result():
    resources = Resources(host_bytes=1_500_000, device_bytes=0, energy_j=0.0025)
    (table,) = [one for one in benchmark_tables([make_record(resources=resources)]) if one.title.startswith("Before")]
    row = {header: text.text for (_, header), text in texts(table).items()}
    assert row == {
        **{"dtype": "f32", "size": "4,096", "compile": "33.0 ms"},
        **{"host": "1.50 MB", "device": "0 B", "energy": "2.50 mJ"},
    }


def test_discarded_samples_are_counted():
    throttled = make_timing(processes=[ProcessTimes(samples_ns=[1.0], discarded=2)] * 3)
    assert "6 samples were discarded, because the device was throttled" in notes(times([make_record(timing=throttled)]))


def test_a_wrong_kernel_never_wins():
    wrong = make_record(make_cell(backend="warp"), status=Status.WRONG_VALUE, reason="812 ulp")
    table = times([*make_pair(1000.0, 2000.0), wrong])
    row = texts(table)
    assert row["jnp", "time"].style is Style.BEST
    assert row["warp", "time"].text == "WRONG_VALUE"
    assert row["warp", "time"].style is Style.BAD
    assert row["warp", RATIO].text == ""
    assert "WRONG_VALUE warp: 812 ulp (lif_step-warp-f32-4096-cpu)" in table.notes


def test_alone_or_timed_otherwise_nobody_wins():
    alone = times([make_record()])
    assert texts(alone)["numba", "time"].style is Style.PLAIN
    jnp = make_record(make_cell(backend="jnp"), timing=make_timing(method="cupti"), bytes=None)
    row = texts(times([jnp, make_record(median_ns=10.0, bytes=None)]))
    assert {text.style for text in row.values()} == {Style.PLAIN}
    assert row["numba", RATIO].text == "\N{EN DASH}"


@pytest.mark.parametrize(
    ("cache", "winner", "words"),
    [("cold", Style.PLAIN, "a bug in the harness"), ("hot", Style.BEST, "never left a cache")],
)
def test_an_impossible_bandwidth_is_flagged(cache, winner, words):
    jnp, numba = make_pair(1000.0, 100.0)
    records = [make_record(r.cell, timing=make_timing(r.timing.median_ns, cache=cache)) for r in (jnp, numba)]
    table = times(records)
    row = texts(table)
    assert row["numba", "bw%"].text == "400!"
    assert row["numba", "time"].style is winner
    assert words in notes(table)
    assert row["jnp", "bw%"].text == "40"


def share_note(records):
    (note,) = {column.note for column in times(records).columns if column.header == "bw%"}
    return note.rpartition("run: ")[2]


def test_the_note_names_the_bandwidths_that_shares_refer_to():
    assert share_note(make_pair(1000.0, 500.0)) == "copy 10.0 GB/s"
    memory = {"bandwidth_limit": 8e9, "bandwidth_limit_kind": "copy, memory"}
    cache = {"bandwidth_limit": 64e9, "bandwidth_limit_kind": "read, L2 cache"}
    records = [
        *(make_record(make_cell(size=1), **cache), make_record(make_cell(size=2), **memory)),
        *(make_record(make_cell(size=3), **memory), make_record(make_cell(size=4), status=Status.OOM)),
    ]
    assert share_note(records) == "copy, memory 8.00 GB/s (2 cells); read, L2 cache 64.0 GB/s (1 cell)"
    assert texts(times(records), 1)["numba", "bw%"].text == "50"


def test_a_limit_measured_again_in_a_resumed_run_shows_its_range():
    records = [
        make_record(make_cell(size=size), bandwidth_limit=rate, bandwidth_limit_kind="copy, memory")
        for size, rate in enumerate((9e9, 8e9, 8.5e9))
    ]
    assert share_note(records) == "copy, memory 8.00 GB/s to 9.00 GB/s"


def test_limits_of_cells_leave_one_device_line():
    records = [
        make_record(make_cell(size=size), bandwidth_limit=size * 1e9, bandwidth_limit_kind="read, L2 cache")
        for size in (1, 2)
    ]
    (line,) = [note for note in summary(records).notes if note.startswith("device: ")]
    assert line == "device: cpu (cpu:0)"


def test_columns_that_nobody_fills_are_absent():
    record = make_record(bandwidth_limit=None, bandwidth_limit_kind=None)
    headers = [column.header for column in times([record]).columns]
    assert "bw%" not in headers
    assert RATIO not in headers


def test_a_cell_that_was_not_run_is_blank():
    table = times([*make_pair(1000.0, 500.0), make_record(make_cell(backend="jnp", size=1))])
    assert texts(table, 0)["numba", "time"].text == ""
    assert not texts(table, 0)["numba", "time"].span


def test_a_correct_cell_without_a_time_says_passed():
    row = texts(times([make_record(median_ns=None)]))
    assert (row["numba", "time"].text, row["numba", "time"].style) == ("PASSED", Style.FAINT)


def test_reasons_are_gathered_failures_first():
    records = [
        *(make_record(make_cell(size=s), status=Status.SKIPPED, reason="no float16") for s in range(1, 6)),
        make_record(make_cell(size=9), status=Status.CRASHED, reason="signal 11\n  at line 3"),
    ]
    found = [note for note in times(records).notes if "numba:" in note]
    assert found[0] == "CRASHED numba: signal 11 at line 3 (lif_step-numba-f32-9-cpu)"
    assert found[1].startswith("SKIPPED numba: no float16 (5 cells: lif_step-numba-f32-1-cpu, ")
    assert found[1].endswith(", …)")


def test_notes_say_what_ran_where_and_how():
    records = [*make_pair(1000.0, 500.0), make_record(make_cell(size=2), status=Status.OOM)]
    said = notes(times(records)) + "\n".join(summary(records).notes)
    for words in [
        *("cells: 2 passed, 1 failed, 0 skipped", "method: wall, cache cold; 35 samples per cell, in 5 processes"),
        *("20261120T190102-3f2a", "commit 0123456789ab", "jax 0.10.2"),
        *("Xeon, 4 cores, 2 of them usable, threads: numba 2", "x64=False"),
    ]:
        assert words in said


def test_the_summary_has_the_mean_with_its_count_and_losses():
    records = [*make_pair(100.0, 200.0, size=1), *make_pair(100.0, 25.0, size=2)]
    records += [*make_pair(100.0, 50.0, size=3)[:1], make_record(make_cell(size=3), status=Status.OOM)]
    table = summary(records)
    row = {header: text.text for (_, header), text in texts(table, 1).items()}
    assert row == {
        **{"backend": "numba", "passed": "2", "failed": "1", "skipped": "0"},
        **{"geomean": "0.71", "95%": f"0.71{DASH}0.71", "best": "0.25", "worst": "2.00"},
        **{"compared": "2", "slower": "1"},
    }
    assert texts(table, 0)[RATIO, "geomean"].text == "baseline"


def test_platforms_and_runs_have_their_own_tables():
    gpu = make_record(make_cell(platform="cuda"), run=make_run(device=GPU))
    other = make_record(run=make_run(run_id="a"))
    tables = benchmark_tables([make_record(), gpu, other])
    assert [table.title for table in tables[::3]] == [
        *("Time per call on cpu: Xeon", "Time per call on cuda: NVIDIA H200", "Time per call on cpu: Xeon")
    ]


def test_no_cells_make_no_tables():
    assert benchmark_tables([]) == []


def test_accuracy_shows_xla_beside_ours_and_flags_what_is_over():
    good = make_record()
    bad = make_record(
        make_cell(backend="warp"),
        status=Status.WRONG_VALUE,
        accuracy=Accuracy(budget_used=8.12, max_ulp=812.0, reference_budget_used=0.125),
    )
    nan = make_record(
        make_cell(backend="nan"),
        status=Status.WRONG_VALUE,
        accuracy=Accuracy(max_ulp=float("inf"), budget_used=float("nan")),
    )
    (table,) = accuracy_tables([good, bad, nan])
    row = texts(table)
    assert [row["numba", header].text for header in ("budget%", "XLA%", "max ulp")] == ["25", "12", "1"]
    assert (row["warp", "budget%"].text, row["warp", "budget%"].style) == ("812!", Style.BAD)
    assert (row["nan", "budget%"].text, row["nan", "max ulp"].text) == ("nan!", "inf")


def test_accuracy_of_a_crash_is_its_status():
    (table,) = accuracy_tables([make_record(status=Status.CRASHED)])
    assert texts(table)["numba", "budget%"].text == "CRASHED"


def test_stages_have_a_row_per_cell():
    failed = make_record(make_cell(backend="warp"), status=Status.COMPILE_ERROR)
    late = make_record(make_cell(backend="z"), status=Status.OOM, stages=Stages(trace_ms=1.0))
    (table,) = stage_tables([failed, make_record(), late])
    shown = [[text.text for text in row.cells[2:]] for row in table.rows]
    assert shown == [
        ["numba", "1.00 ms", "2.00 ms", "30.0 ms", "\N{EN DASH}"],
        ["warp", "COMPILE_ERROR", "", "", ""],
        ["z", "1.00 ms", "\N{EN DASH}", "\N{EN DASH}", "\N{EN DASH}"],
    ]
