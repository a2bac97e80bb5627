"""Tables as terminal text, as Markdown and as HTML: they fit, no number is cut, and names are shown, not obeyed."""

import math
import re
import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reports import load_run
from reports.pages.run_page import list_page, page_of
from reports.records.codec import decode, encode
from reports.render import markdown, terminal, units
from reports.render.layout import Column, Style, Table, Text
from reports.render.terminal import render
from reports.render.visible import visible
from reports.web.html_tables import html_table
from suites.unit.structure.house import PROJECT

RUNS = sorted((PROJECT / "reports/published").glob("*/*.jsonl.gz"))
TIME = r"\d[\d,.]* (?:ns|µs|ms|s)\b"

SMALL = Table(
    "A title",
    (Column("size"), Column("time", note="time: of a call"), Column("more", drop=1), Column("why", "left")),
    (
        (Text("1"), Text("2 ns", Style.BEST), Text("9"), Text("")),
        (Text("20"), Text("OOM", Style.BAD), Text(""), Text("no | room")),
    ),
    ("a note with `ticks` and [17]",),
    best="the fastest",
)


def test_terminal_text():
    assert terminal.render([SMALL], 60).splitlines() == [
        "A title",
        "size   time  more  why",
        "────  ─────  ────  ─────────",
        "   1  *2 ns     9",
        "  20    OOM        no | room",
        "  *: the fastest",
        "  time: of a call",
        "  a note with `ticks` and [17]",
    ]


def test_markdown_text():
    assert markdown.render([SMALL]).splitlines() == [
        "### A title",
        "",
        "| size | time | more | why |",
        "| ---: | ---: | ---: | --- |",
        "| 1 | **2 ns** | 9 |  |",
        r"| 20 | `OOM` |  | no \| room |",
        "",
        "- bold: the fastest",
        "- time: of a call",
        r"- a note with \`ticks\` and \[17\]",
    ]
    assert markdown.escape("WRONG_VALUE in __init__ of *x*\nnext") == r"WRONG_VALUE in \_\_init\_\_ of \*x\* next"


def test_html_marks_the_best_and_leaves_columns_without_a_text_out():
    text = html_table(Table("T", (*SMALL.columns, Column("empty")), tuple((*row, Text("")) for row in SMALL.rows)))
    assert '<td class="best" data-label="time">2 ns<span class="unseen"> (best)</span></td>' in text
    assert '<td class="bad" data-label="time">OOM</td>' in text
    assert "empty" not in text


def test_optional_columns_go_first_and_are_named_with_the_width_that_shows_them():
    shown = terminal.render([SMALL], 27)
    assert "more  why" not in shown
    assert "left out, the lines are too short: more. COLUMNS=28 shows all columns" in " ".join(shown.split())
    assert "left out" not in terminal.render([SMALL], 28)


def test_colour_only_where_asked():
    coloured = terminal.render([SMALL], 60, color=True)
    assert "\x1b[1;32m" in coloured
    assert re.sub(r"\x1b\[[0-9;]*m", "", coloured) == terminal.render([SMALL], 60)


@pytest.mark.parametrize("render", [terminal.render, markdown.render, lambda tables: html_table(tables[0])])
def test_a_table_without_rows_says_so_and_tables_are_apart(render):
    assert "(none)" in render([Table("Empty", (Column("size"),), ())])
    assert re.search(r"\n\n(### )?A title|<h3>A title", render([SMALL, SMALL]))


@pytest.mark.parametrize("width", [80, 200])
def test_published_pages_fit_and_no_number_is_cut(width):
    shorter = [path for path in RUNS if path.stat().st_size < 150_000]  # of each kind of run
    assert len(shorter) >= 10
    for path in shorter:
        # A validation has thousands of cells: some show what matters here.
        records = load_run(path).records
        records = [record for record in records if record.cell.operator in ("add", "matvec")] or records
        for page in (page_of(records), list_page(records[:100], "ratio", ())):
            shown = terminal.render(page.tables, width)
            assert not [line for line in shown.splitlines() if len(line) > width], path
            wide = terminal.render(page.tables, 5000)
            assert set(re.findall(TIME, shown)) <= set(re.findall(TIME, wide)), path


@given(st.text())
@settings(max_examples=200)
def test_visible_text_is_one_line_without_control_characters(text):
    once = visible(text)
    assert len(once.splitlines()) <= 1
    assert visible(once) == once
    assert not {unicodedata.category(each) for each in once} & {"Cc", "Cf", "Cs", "Zl", "Zp"}
    once.encode()


def test_what_is_shown_as_itself_stays_and_the_rest_is_escaped_as_in_python():
    texts = ("12 µs → ü", "a\x1b[0m\nb\tc", "\u202e\U000e0001")
    assert [*map(visible, texts)] == ["12 µs → ü", r"a\x1b[0m\nb\tc", r"\u202e\U000e0001"]


def test_what_begins_a_line_of_markdown_begins_no_list_and_no_heading():
    assert [markdown.escape(text) for text in ("# a", "- a", "1. a", "2) a", "1.00 ns", "a~b$c&lt;")] == [
        r"\# a", r"\- a", r"1\. a", r"2\) a", "1.00 ns", r"a\~b\$c\&lt;",
    ]  # fmt: skip


TEXTS = {
    units.time_text: {0.5: "0.500 ns", 12.34: "12.3 ns", 999.7: "1.00 µs", 1e6: "1.00 ms", 1.234e12: "1230 s",
                      None: units.ABSENT},
    units.ratio_text: {0.0123: "0.012", 0.0999: "0.10", 1.0: "1.00", 9.996: "10.0", 1234.0: "1230", math.inf: "inf"},
    units.percent_text: {0.0: "0", 0.0004: "<0.1", 0.0421: "4.2", 0.0996: "10", 1.6: "160", 812.0: "8.1e+04"},
    units.ulp_text: {0.0: "0", 2.0: "2", 0.52: "0.52", 812.3: "812", 1e9: "1.0e+09", math.inf: "inf"},
    units.ms_text: {0.25: "250 µs", 0.0: "0 ms"},
    units.count_text: {1048576: "1,048,576"},
}  # fmt: skip


@pytest.mark.parametrize("function", TEXTS, ids=lambda function: function.__name__)
def test_numbers_are_short_and_have_a_fitting_unit(function):
    assert {number: function(number) for number in TEXTS[function]} == TEXTS[function]


def test_a_range_is_in_the_unit_of_its_median_and_a_rate_in_a_fitting_one():
    assert units.time_range_text(999.0, 1010.0, 1001.0) == "0.999\N{EN DASH}1.01"
    assert units.time_range_text(1.2e6, 1.3e6, 1.25e6) == "1.20\N{EN DASH}1.30"
    assert [units.rate_text(rate, "B/s") for rate in (4.02e12, 0.5)] == ["4.02 TB/s", "0.500 B/s"]


# Published runs, which older versions wrote: each is read, shown, and can be written again.


@pytest.mark.parametrize("file", RUNS, ids=lambda file: f"{file.parent.name}-{file.name.partition('.')[0]}")
def test_a_published_run_is_readable_and_has_a_page(file):
    run = load_run(file)
    assert (run.problems, run.is_complete) == ([], True)
    assert run.run_id == file.name.partition(".")[0]
    page = page_of(run.records)
    assert len(page.frame) == len({record.cell.key for record in run.records})
    assert render(page.tables)
    assert decode(encode(run.records[0])) == run.records[0]
