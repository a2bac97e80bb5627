"""The tables of a run: cells with their times, their choice and order, the summary, and verdicts."""

import json

import msgspec
import pytest

from reports.options import Exit
from reports.pages.arrangement import KINDS
from reports.pages.groups import group_names
from reports.pages.rows import cell_rows
from reports.pages.run_cells import MOST, benchmark_tables, cell_table
from reports.pages.run_page import list_page
from reports.pages.verdicts import is_validation, validation_tables
from reports.records.measurements import Accuracy, ProcessTimes, Stages
from reports.records.status import Status
from reports.render.layout import Style
from reports.render.units import ABSENT, DASH, TIMES
from suites.commands.command_line import main
from suites.unit.reports.builders import make_cell, make_pair, make_record, make_run, make_timing, whole

RATIO = f"{TIMES}jnp"
PROCESSES = {
    "jnp": (1.0, 1.02, 0.98, 1.01, 0.99),
    "numba": (1.01, 1.0, 0.99, 0.99, 1.01),
    "warp": (1.4, 1.41, 1.39, 1.4, 1.42),
}
"""Times of three backends in five processes."""
UNSTEADY = ProcessTimes(samples_ns=(500.0,), loops=2, program_ns=(5600.0,))
UNSTEADY_BUT_SLOW = ProcessTimes(samples_ns=(5000.0,), loops=2, program_ns=(56000.0,))


def texts(table):
    """The texts of each row by header, by the backend of the row; of one size."""
    headers = [column.header for column in table.columns]
    rows = (dict(zip(headers, row, strict=True)) for row in table.rows)
    return {row["backend"].text: row for row in rows}


def notes(table):
    return "\n".join([*table.notes, *(column.note for column in table.columns)])


def cells(records, **options):
    return cell_table(cell_rows(records), **options)


def timed(**across):
    return [make_record(make_cell(backend=name), timing=make_timing(across=own)) for name, own in across.items()]


def test_a_row_holds_a_cell_and_its_ratio():
    table = cells(make_pair(1000.0, 2500.0))
    rows = texts(table)
    assert list(rows) == ["jnp", "numba"]
    assert (rows["jnp"]["time"].text, rows["jnp"][RATIO].text) == ("1.00 µs", "")
    assert [rows["numba"][name].text for name in ("time", RATIO, "bw%", "size")] == ["2.50 µs", "2.50", "16", "4,096"]
    assert "above 1 is slower than jnp" in notes(table)


def test_rows_are_ordered_by_operator_dtype_and_size_the_baseline_first():
    wanted = [("a", "f32", "20"), ("a", "f32", "1,000"), ("a", "f64", "5"), ("b", "f32", "10")]
    made = [("b", "float32", 10), ("a", "float64", 5), ("a", "float32", 1000), ("a", "float32", 20)]
    table = cells([
        make_record(make_cell(operator=name, dtype=dtype, size=size, backend=backend))
        for name, dtype, size in made for backend in ("numba", "jnp")
    ])  # fmt: skip
    found = [tuple(text.text for text in row[:4]) for row in table.rows]
    assert found == [(*one, backend) for one in wanted for backend in ("jnp", "numba")]


@pytest.mark.parametrize(
    ("records", "best"),
    [
        (timed(jnp=PROCESSES["jnp"], numba=[0.5] * 5), {"numba": "500 ns"}),
        (timed(**PROCESSES), {"jnp": "=1.00 µs", "numba": "=1.00 µs"}),
        (timed(jnp=[1.0] * 5, numba=[1.01] * 5), {"jnp": "=1.00 µs", "numba": "=1.01 µs"}),
        (timed(jnp=[1.0] * 2, numba=[0.5] * 2), {}),
        ([make_record(make_cell(backend="jnp"), timing=make_timing(method="cupti")), make_record(median_ns=1.0)], {}),
        # The program around the calls may hide a shorter time, or cannot.
        ([*make_pair(2000.0, 1000.0),
          make_record(make_cell(backend="warp"), timing=make_timing(processes=[UNSTEADY] * 5))], {}),
        ([*make_pair(2000.0, 1000.0),
          make_record(make_cell(backend="warp"), timing=make_timing(processes=[UNSTEADY_BUT_SLOW] * 5))],
         {"numba": "1.00 µs"}),
    ],
    ids=["alone", "tie", "small", "few processes", "methods", "hidden", "not hidden"],
)  # fmt: skip
def test_the_fastest_of_a_cell_is_marked_and_so_is_whoever_cannot_be_told_apart(records, best):
    rows = texts(cells(records))
    assert {name: row["time"].text for name, row in rows.items() if row["time"].style is Style.BEST} == best


@pytest.mark.parametrize(
    ("cache", "best", "words"), [("cold", False, "a bug in the harness"), ("hot", True, "stayed in a cache")]
)
def test_an_impossible_bandwidth_is_flagged(cache, best, words):
    records = [make_record(one.cell, timing=make_timing(one.timing.median_ns, cache=cache))
               for one in make_pair(1000.0, 100.0)]  # fmt: skip
    row = texts(cells(records))["numba"]
    assert (row["bw%"].text, row["time"].style is Style.BEST) == ("400!", best)
    assert words in notes(cells(records))


@pytest.mark.parametrize(
    ("records", "words"),
    [
        (timed(jnp=[1.0] * 2, numba=[0.5] * 2), "no cell was measured in 3 processes or more"),
        ([make_record(make_cell(backend="jnp"), timing=make_timing(method="cupti")), make_record()],
         "no ratio: timed by wall, jnp by cupti (lif_step-numba"),
        ([make_record(make_cell(backend="jnp")), make_record(timing=make_timing(processes=[UNSTEADY] * 5))],
         "no ratio: the program around the calls takes most of the time of the kernel (lif_step-numba"),
        ([make_record(make_cell(size=size), status=Status.SKIPPED, reason="no float16") for size in range(1, 6)],
         "SKIPPED numba: no float16 (5 cells: lif_step-numba-f32-1-cpu, "),
        ([make_record()], "20261120T190102-3f2a, profile quick, started 2026-11-20T19:01:02+00:00, commit 0123456789"),
    ],
)  # fmt: skip
def test_the_notes_say_what_a_reader_must_know(records, words):
    assert words in notes(cells(records))


def test_a_cell_that_did_not_pass_shows_its_status_and_columns_without_a_value_are_absent():
    bare = {"bandwidth_limit": None, "bandwidth_limit_kind": None}
    records = [make_record(**bare), make_record(make_cell(backend="warp"), status=Status.OOM, **bare)]
    rows = texts(cells(records))
    assert (rows["warp"]["time"].text, rows["warp"]["time"].style) == ("OOM", Style.BAD)
    assert {"bw%", RATIO, "95%", "cache"}.isdisjoint(rows["numba"])
    assert "cache" in texts(cells([make_record(make_cell(params={"cache": "hot"}))]))["numba"]
    assert benchmark_tables([]) == []


def test_a_table_of_very_many_cells_has_the_first_ones_and_those_that_failed():
    records = [make_record(make_cell(size=size)) for size in range(1, MOST + 101)]
    records[-1] = make_record(records[-1].cell, status=Status.WRONG_VALUE, reason="812 ulp")
    found = cells(records)
    assert len(found.rows) == MOST + 1
    assert [text.text for text in found.rows[-1]][4:5] == ["WRONG_VALUE"]
    assert "1,001 of 1,100 cells are listed; --format csv or json has all" in found.notes
    assert "cells: 1,099 passed, 1 failed, 0 skipped" in found.notes


def test_details_list_all_that_was_recorded_of_a_call():
    record = make_record(make_cell(), 1000.0, stages=Stages(compile_ms=20.0), accuracy=Accuracy(budget_used=2.0))
    records = [record, make_record(make_cell(backend="jnp"), 1.0, stages=Stages(first_call_ms=9.0))]
    rows = texts(list_page(records, details=True).tables[0])
    assert (rows["numba"]["budget%"].text, rows["numba"]["budget%"].style) == ("200!", Style.BAD)
    assert rows["jnp"]["first call"].text == "9.00 ms"
    assert "first call" not in texts(list_page(records).tables[0])["jnp"]


def test_the_summary_has_the_mean_with_its_count_and_losses():
    records = [*make_pair(100.0, 200.0, size=1), *make_pair(100.0, 25.0, size=2)]
    records += [*make_pair(100.0, 50.0, size=3)[:1], make_record(make_cell(size=3), status=Status.OOM)]
    rows = texts(benchmark_tables(records)[-1])
    assert {header: text.text for header, text in rows["numba"].items()} == {
        "backend": "numba", "passed": "2", "failed": "1", "skipped": "0", RATIO: "0.71", "95%": f"0.71{DASH}0.71",
        "compared": "2", "slower": "1",
    }  # fmt: skip
    assert rows["jnp"][RATIO].text == "baseline"


def test_a_mean_leaves_out_cells_that_only_one_backend_has():
    def cell(backend, size, ns):
        return make_record(make_cell(backend=backend, size=size), ns)

    shared = [cell("jnp", 1, 100.0), cell("numba", 1, 200.0), cell("warp", 1, 300.0)]
    alone = [cell("jnp", 2, 100.0), cell("numba", 2, 1.0)]
    rows = texts(benchmark_tables([*shared, *alone])[-1])
    assert [(rows[name][RATIO].text, rows[name]["compared"].text) for name in ("numba", "warp")] == [
        ("2.00", "1"), ("3.00", "1")
    ]  # fmt: skip
    assert texts(benchmark_tables([*shared[:2], *alone])[-1])["numba"]["compared"].text == "2", "one kernel language"


def test_the_kernels_that_beat_the_baseline_are_named_with_the_size_from_which_on():
    times = {"jnp": (10.0, 10.0, 10.0), "numba": (20.0, 5.0, 4.0), "warp": (5.0, 20.0, 6.0), "triton": (5.0, 5.0, 20.0)}
    records = [
        make_record(make_cell(backend=name, dtype=dtype, size=size), ns)
        for name, own in times.items() for dtype in ("float32", "bfloat16")
        for size, ns in zip((1, 1000, 2000), own, strict=True)
    ]  # fmt: skip
    assert [[text.text for text in row] for row in benchmark_tables(records)[1].rows] == [
        ["lif_step", dtype, "numba 0.40 from 1,000, warp 0.60 from 2,000"] for dtype in ("bf16", "f32")
    ]
    (row,) = benchmark_tables(timed(jnp=[1.0] * 2, numba=[0.5] * 2))[1].rows
    assert row[-1].text == "numba 0.50?", "two processes prove nothing"


@pytest.fixture
def run(tmp_path, monkeypatch):
    """A recorded run whose backends are slower, faster, tied, failed and skipped."""
    monkeypatch.setenv("KERNEL_BRIDGE_RUNS", str(tmp_path))
    own = make_run()
    times = {"faster": 500.0, "slower": 2000.0, "jnp": 1000.0, "tied": 1001.0, "untimed": None}
    records = [make_record(make_cell(backend=name), ns, own) for name, ns in times.items()]
    records.append(make_record(make_cell(backend="failed"), run=own, status=Status.WRONG_VALUE, reason="812 ulp"))
    records.append(make_record(make_cell(backend="skipped"), run=own, status=Status.SKIPPED, reason="no float16"))
    records = [msgspec.structs.replace(record, index=index) for index, record in enumerate(records)]
    (tmp_path / "20260101T000000-aaaa.jsonl").write_bytes(whole(records, optional=["skipped"]))


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        *((["--only", kind], [kind.replace("ties", "tied")]) for kind in KINDS),
        (["--only", "slower", "--only", "failed"], ["failed", "slower"]),
        (["--sort", "ratio"], ["slower", "tied", "jnp", "faster", "failed", "skipped", "untimed"]),
        (["--sort", "name"], ["jnp", "failed", "faster", "skipped", "slower", "tied", "untimed"]),
        (["--only", "slower", "--backend", "faster"], []),
    ],
)
def test_options_choose_and_sort_cells(run, capsys, arguments, expected):
    assert main(["show", "latest", *arguments, "--format", "json"]) in (Exit.WRONG, Exit.FINE)
    assert [row["backend"] for row in json.loads(capsys.readouterr().out)] == expected


def test_a_choice_is_said_and_the_exit_code_counts_all_cells(run, capsys):
    assert main(["show", "latest", "--only", "faster"]) == Exit.WRONG
    shown = capsys.readouterr().out
    assert "faster: 1 of 7 cells" in shown
    assert "WRONG_VALUE" not in shown
    assert main(["show", "latest", "--only", "slower", "--backend", "faster", "--sort", "size"]) == Exit.FINE
    shown = capsys.readouterr().out
    assert all(words in shown for words in ("(none)", "slower: 0 of 2 cells", "sorted by size"))


def variant(params=None, size=1, mode="forward", version=1, operator="op"):
    return make_cell(operator=operator, operator_version=version, mode=mode, params=params or {}, size=size)


@pytest.mark.parametrize(
    ("found", "names"),
    [
        ([variant({"density": 0.1, "order": "row"}, mode="vjp")], ["op  vjp  density=0.1  order=row"]),
        ([variant({"rows": 1}, 64), variant({"rows": 2}, 128)], ["op", "op"]),
        ([variant({"k": 1}, 64), variant({"k": 2}, 64), variant({"k": 1}, 128)], ["op  k=1", "op  k=2", "op  k=1"]),
        ([variant(), variant(version=2), variant(operator="other", version=2)],
         ["op  (version 1)", "op  (version 2)", "other"]),
    ],
)  # fmt: skip
def test_variants_are_named_only_where_they_tell_cells_apart(found, names):
    assert group_names(found) == names


def checked(backend, mode="eager", status=Status.PASSED, used=0.25, reason="because", size=4096):
    accuracy = None if used is None else Accuracy(budget_used=used, max_ulp=1.0)
    cell = make_cell(backend=backend, mode=mode, size=size)
    why = None if status is Status.PASSED else reason
    return make_record(cell, None, make_run(profile="validate full"), status=status, accuracy=accuracy, reason=why)


CHECKED = [
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


def test_a_validation_has_a_verdict_on_each_kernel_and_counts_each_check():
    grid, checks = validation_tables(CHECKED, ["vmap", "eager", "grad"])
    assert [column.header for column in grid.columns] == ["operator", "jnp", "numba", "numba_parallel", "warp"]
    assert [text.text for text in grid.rows[0]] == ["lif_step", "PASSED 1", "PASSED 3", "SKIPPED", "WRONG_VALUE 1/4"]
    assert all(reason in notes(grid) for reason in ("element 1: far off", "worker gone", "no float16"))
    assert "5 passed, 3 failed, 1 skipped" in notes(grid)
    assert [[text.text for text in row] for row in checks.rows] == [
        ["vmap", "1", "2", "0", "300", "lif_step, warp, float32"],
        ["eager", "3", "0", "1", "25", "lif_step, numba, float32"],
        ["scan", "1", "1", "0", ABSENT, ""],
    ]
    assert is_validation(CHECKED)
    assert not is_validation([make_record()])
