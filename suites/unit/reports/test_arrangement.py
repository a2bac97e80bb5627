"""Choosing and sorting cells: `--only` and `--sort` of `show` and `compare`, and plain ASCII."""

import json
import re

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reports import cli
from reports.cli import main
from reports.options import Exit
from reports.pages.arrangement import KINDS, SORTS, arranged
from reports.pages.rows import cell_rows
from reports.pages.run_page import list_page, page_of
from reports.records.run_file import load_run
from reports.records.status import Status
from reports.render import markdown, terminal
from reports.render.plain_text import can_show, to_ascii
from reports.render.units import DASH, TIMES
from suites.unit.reports.builders import make_cell, make_record, make_run, whole
from suites.unit.structure.house import PROJECT

PUBLISHED = [
    path for path in sorted((PROJECT / "reports/published").glob("*/*.jsonl.gz")) if path.stat().st_size < 150_000
]
"""Of each kind of run, the shorter ones."""
TIME = r"\d[\d,.]* (?:ns|us|µs|ms|s)\b"


def cells():
    """Backends that are slower, faster, tied, failed and skipped, in an order that is none of the sorted ones."""
    run = make_run()
    times = {"faster": 500.0, "slower": 2000.0, "jnp": 1000.0, "tied": 1001.0, "untimed": None}
    records = [make_record(make_cell(backend=name), ns, run) for name, ns in times.items()]
    records.append(make_record(make_cell(backend="failed"), run=run, status=Status.WRONG_VALUE, reason="812 ulp"))
    records.append(make_record(make_cell(backend="skipped"), run=run, status=Status.SKIPPED, reason="no float16"))
    return [msgspec.structs.replace(record, index=index) for index, record in enumerate(records)]


@pytest.fixture
def run(tmp_path, monkeypatch):
    monkeypatch.setenv("KERNEL_BRIDGE_RUNS", str(tmp_path))
    (tmp_path / "20260101T000000-aaaa.jsonl").write_bytes(whole(cells(), optional=["skipped"]))
    return tmp_path


def backends(shown):
    return [row["backend"] for row in json.loads(shown)]


@pytest.mark.parametrize("kind", [*KINDS])
def test_only_takes_its_kind(run, capsys, kind):
    main(["show", "--only", kind, "--format", "json"])
    assert backends(capsys.readouterr().out) == [kind.replace("ties", "tied")]


def test_several_kinds_are_united(run, capsys):
    main(["show", "--only", "slower", "--only", "failed", "--format", "json"])
    assert backends(capsys.readouterr().out) == ["slower", "failed"]


@pytest.mark.parametrize(
    ("key", "first"),
    [("ratio", ["slower", "tied", "jnp", "faster"]), ("time", ["slower", "tied", "jnp", "faster"]), ("name", ["jnp"])],
)
def test_sort_puts_the_greatest_first_and_what_is_unknown_last(run, capsys, key, first):
    main(["show", "--sort", key, "--format", "csv"])
    shown = capsys.readouterr().out
    places = [shown.index(f"-{name}-f32") for name in first]
    if key != "name":
        assert places == sorted(places)
        assert shown.index("-failed-f32") > places[-1]


def test_the_exit_code_counts_all_cells(run, capsys):
    assert main(["show", "--only", "faster"]) == Exit.WRONG
    shown = capsys.readouterr().out
    assert "faster: 1 of 7 cells" in shown
    assert "WRONG_VALUE" not in shown


def test_the_reason_stands_below_a_list_of_failures(run, capsys):
    assert main(["show", "--only", "failed", "--sort", "ratio"]) == Exit.WRONG
    shown = capsys.readouterr().out
    assert "WRONG_VALUE failed: 812 ulp" in shown
    assert "sorted by ratio" in shown


def test_nothing_found_says_so(run, capsys):
    main(["show", "--only", "slower", "--backend", "faster"])
    shown = capsys.readouterr().out
    assert "(none)" in shown
    assert "slower: 0 of 2 cells" in shown


def test_an_unknown_kind_is_an_error_of_one_line(capsys):
    with pytest.raises(SystemExit) as ended:
        main(["show", "--only", "bad"])
    assert ended.value.code == Exit.COULD_NOT_RUN
    assert "invalid choice: 'bad'" in capsys.readouterr().err


def test_the_command_line_knows_all_names():
    assert tuple(SORTS) == cli._SORTS
    assert tuple(KINDS) == cli._KINDS


@given(st.lists(st.tuples(st.floats(1, 1e9), st.sampled_from(["PASSED", "OOM"])), min_size=1, max_size=12), st.data())
@settings(max_examples=40, deadline=None)
def test_arranging_loses_and_invents_no_cell(found, data):
    rows = cell_rows(
        [
            make_record(make_cell(size=size + 1), ns if status == "PASSED" else None, status=Status(status), reason="x")
            for size, (ns, status) in enumerate(found)
        ]
    )
    sort = data.draw(st.sampled_from([None, "name", *SORTS]))
    assert sorted(map(id, arranged(rows, sort, ()))) == sorted(map(id, rows))
    only = data.draw(st.sets(st.sampled_from([*KINDS]), min_size=1))
    assert {id(row) for row in arranged(rows, sort, only)} == {
        id(row) for row in rows if any(KINDS[kind](row) for kind in only)
    }


def test_compare_shows_only_what_is_asked_and_exits_as_before(run, capsys):
    slower = [
        make_record(record.cell, 3000.0, make_run(run_id="20260102T000000-bbbb"))
        if record.cell.backend == "faster"
        else msgspec.structs.replace(record, run=make_run(run_id="20260102T000000-bbbb"))
        for record in cells()
    ]
    (run / "20260102T000000-bbbb.jsonl").write_bytes(whole(slower, optional=["skipped"]))
    # One kernel: of more, five processes could not show that one of them differs.
    names = ["compare", "previous", "latest", "--backend", "faster"]
    assert main(names) == Exit.WRONG
    capsys.readouterr()
    assert main([*names, "--only", "slower", "--sort", "ratio", "--width", "80"]) == Exit.WRONG
    shown = capsys.readouterr().out
    assert "shown: 1 of 2 cells" in shown
    assert re.search(r"lif_step +f32 .*faster.*6\.00.*SLOWER", shown)
    assert main([*names, "--only", "ties"]) == Exit.WRONG
    assert "shown: 0 of 2 cells" in capsys.readouterr().out


def published_pages():
    for path in PUBLISHED:
        run = load_run(path)
        # A validation has thousands of cells: some show what matters here.
        records = [record for record in run.records if record.cell.operator in ("add", "matvec")]
        records = records or run.records
        yield path.stem, page_of(records, accuracy=True, stages=True)
        yield path.stem, list_page(records[:100], "ratio", ())


@pytest.fixture(scope="module")
def pages():
    return list(published_pages())


@pytest.mark.parametrize("width", [80, 100, 200])
def test_published_pages_fit_and_no_number_is_cut(pages, width):
    for name, page in pages:
        shown = terminal.render(page.tables, width)
        too_long = [line for line in shown.splitlines() if len(line) > width]
        assert not too_long, name
        wide = terminal.render(page.tables, 5000)
        # Each time of the wide page that is in a column which stays is there, whole, and nothing else is.
        whole_times = set(re.findall(TIME, wide))
        assert set(re.findall(TIME, shown)) <= whole_times, name
        if "left out" not in shown:
            found, wanted = (re.findall(TIME, " ".join(text.split())) for text in (shown, wide))
            assert set(found) == set(wanted), name
            # The parts of a table that is split repeat its first columns.
            assert "(1 of " in shown or sorted(found) == sorted(wanted), name


def test_plain_ascii_is_ascii_and_says_the_same(pages):
    for name, page in pages:
        plain = terminal.render(page.tables, 100, ascii_only=True)
        assert plain.isascii(), name
        shown = terminal.render(page.tables, 100)
        if "…" not in shown and "→" not in shown:  # these become longer, and lines break elsewhere
            assert plain == to_ascii(shown), name
        assert markdown.render(page.tables, ascii_only=True).isascii()


@given(
    st.lists(st.text(st.characters(codec="utf-8"), min_size=1, max_size=60), min_size=1, max_size=4, unique=True),
    st.sampled_from([80, 100, 200]),
    st.booleans(),
)
@settings(max_examples=25, deadline=None)
def test_names_of_any_length_cut_no_number(names, width, ascii_only):
    records = [
        make_record(make_cell(operator=name, backend=backend, size=16_777_216), 123_456.0 * (place + 1))
        for place, name in enumerate(names)
        for backend in ("jnp", "numba")
    ]
    for page in (page_of(records), list_page(records, "time", ())):
        shown = terminal.render(page.tables, width, ascii_only=ascii_only)
        unit = "us" if ascii_only else "µs"
        for place in range(len(names)):
            assert shown.count(f"{123.456 * (place + 1):.0f} {unit}") >= 2
        assert shown.count("16,777,216") >= len(names)


def test_columns_that_were_left_out_are_named_with_the_width_that_shows_them(pages):
    page = next(page for name, page in pages if name.startswith("20261122T160144"))
    shown = " ".join(terminal.render(page.tables[:1], 80).split())
    found = re.search(
        rf"left out, the lines are too short: low{DASH}high, 95%\. --width (\d+) shows all columns", shown
    )
    assert found
    wide = terminal.render(page.tables[:1], int(found[1]))
    assert "left out" not in wide
    assert "95%" in wide
    assert "left out" in terminal.render(page.tables[:1], int(found[1]) - 1)


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("1.5 µs", "1.5 us"),
        (f"2{DASH}3", "2-3"),
        (f"{TIMES}jnp ±5%", "xjnp +/-5%"),
        ("é", "e"),
        ("a²", r"a\xb2"),
        ("数", r"\u6570"),
    ],
)
def test_signs_in_plain_ascii(text, plain):
    assert to_ascii(text) == plain


def test_the_locale_c_gets_plain_ascii():
    assert can_show("utf-8")
    assert not can_show("ascii")
    assert not can_show("no such encoding")
