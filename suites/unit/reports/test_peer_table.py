"""The fastest kernel of a cell stands beside each library, with a ratio, and libraries win no first place."""

from reports import Status
from reports.pages.first_places import contests
from reports.pages.peer_table import besides, peer_tables
from reports.pages.rows import cell_rows
from reports.pages.times import benchmark_tables
from reports.web.repeat_command import repeat_command
from reports.web.run_choice import RunKind
from suites.unit.reports.builders import make_cell, make_record, make_run

RUN = make_run(peers={"numpy": "NumPy 2.4", "scipy": "SciPy"})


def rows(**times):
    """The cells of these backends; a time of None is a cell that was skipped."""
    return cell_rows(records(**times))


def records(**times):
    return [
        make_record(make_cell(backend=name), run=RUN, status=Status.SKIPPED, reason="SciPy is not installed")
        if time is None
        else make_record(make_cell(backend=name), time, run=RUN)
        for name, time in times.items()
    ]


def lines(table):
    return [tuple(text.text for text in row.cells) for row in table.rows]


def test_each_library_is_compared_with_the_fastest_kernel():
    (table,) = peer_tables(rows(jnp=2000.0, numba=1500.0, warp=900.0, numpy=1000.0, scipy=None))
    assert [line[2:7] for line in lines(table)] == [
        ("warp", "900 ns", "NumPy 2.4", "1.00 µs", "0.90"),
        ("", "", "XLA (jnp)", "2.00 µs", "0.45"),
        ("", "", "SciPy", "SKIPPED", ""),
    ]
    assert "SciPy is not installed" in " ".join(table.notes)


def test_a_tie_is_a_tie():
    (table,) = peer_tables(rows(numba=1001.0, numpy=1000.0))
    assert lines(table)[0][6] == "=1.00"


def test_the_fastest_library_is_marked_and_xla_is_one():
    pairs = besides(rows(jnp=500.0, numba=1500.0, numpy=1000.0))
    assert [(pair.library.cell.backend, pair.is_fastest) for pair in pairs] == [("jnp", True), ("numpy", False)]


def test_libraries_without_a_kernel_have_no_ratio():
    (table,) = peer_tables(rows(jnp=500.0, numpy=1000.0))
    assert [line[2] for line in lines(table)] == ["\N{EN DASH}", ""]
    assert {line[6] for line in lines(table)} == {"\N{EN DASH}"}


def test_runs_without_libraries_have_no_such_table():
    assert peer_tables(rows(jnp=500.0, numba=1000.0)) == []


def test_a_library_takes_no_part_in_contests_and_summaries():
    found = rows(jnp=2000.0, numba=1500.0, numpy=100.0)
    (contest,) = contests(found).values()
    assert [row.cell.backend for row in contest.winners] == ["numba"]
    tables = benchmark_tables(records(jnp=2000.0, numba=1500.0, numpy=100.0))
    assert [table.title.partition(",")[0].partition(" o")[0] for table in tables] == [
        "Time per call", "Before the first result", "Fastest kernels beside", "Summary",
    ]  # fmt: skip
    groups = {column.group for table in tables for column in table.columns}
    assert "numpy" not in groups
    assert [line[0] for line in lines(tables[-1])] == ["jnp", "numba"]


def test_the_command_that_repeats_a_cell_of_a_library_asks_for_libraries():
    said = {name: repeat_command(make_cell(backend=name), RUN, RunKind.TIMES) for name in ("numpy", "numba")}
    assert {name: "--peers" in text.split() for name, text in said.items()} == {"numpy": True, "numba": False}


def test_a_run_of_libraries_alone_shows_them():
    (table,) = benchmark_tables(records(numpy=100.0))
    assert lines(table)[0][2:6] == ("\N{EN DASH}", "", "NumPy 2.4", "100 ns")
