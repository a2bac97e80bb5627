"""Tables as terminal text, as Markdown and as HTML: they fit, and no number is cut."""

import re

import pytest

from reports.pages.run_page import list_page, page_of
from reports.records.run_file import load_run
from reports.render import markdown, terminal
from reports.render.layout import Column, Style, Table, Text
from reports.web.html_tables import html_table
from suites.unit.structure.house import PROJECT

PUBLISHED = [
    path for path in sorted((PROJECT / "reports/published").glob("*/*.jsonl.gz")) if path.stat().st_size < 150_000
]
"""Of each kind of run, the shorter ones."""
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
    assert '<td class="best">2 ns<span class="unseen"> (best)</span></td>' in text
    assert '<td class="bad">OOM</td>' in text
    assert "empty" not in text


def test_optional_columns_go_first_and_are_named_with_the_width_that_shows_them():
    shown = terminal.render([SMALL], 27)
    assert "more  why" not in shown
    assert "left out, the lines are too short: more. COLUMNS=28 shows all columns" in " ".join(shown.split())
    assert "left out" not in terminal.render([SMALL], 28)


def test_colour_only_where_asked():
    coloured = terminal.render([SMALL], 60, color=True)
    assert "\x1b[1;32m*2 ns\x1b[0m" in coloured.replace(" \x1b", "\x1b") or "\x1b[1;32m" in coloured
    assert re.sub(r"\x1b\[[0-9;]*m", "", coloured) == terminal.render([SMALL], 60)


@pytest.mark.parametrize("render", [terminal.render, markdown.render, lambda tables: html_table(tables[0])])
def test_a_table_without_rows_says_so_and_tables_are_apart(render):
    assert "(none)" in render([Table("Empty", (Column("size"),), ())])
    assert re.search(r"\n\n(### )?A title|<h3>A title", render([SMALL, SMALL]))


@pytest.mark.parametrize("width", [80, 100, 200])
def test_published_pages_fit_and_no_number_is_cut(width):
    for path in PUBLISHED:
        # A validation has thousands of cells: some show what matters here.
        records = load_run(path).records
        records = [record for record in records if record.cell.operator in ("add", "matvec")] or records
        for page in (page_of(records), list_page(records[:100], "ratio", ())):
            shown = terminal.render(page.tables, width)
            assert not [line for line in shown.splitlines() if len(line) > width], path
            wide = terminal.render(page.tables, 5000)
            assert set(re.findall(TIME, shown)) <= set(re.findall(TIME, wide)), path


def test_a_long_name_is_broken_at_its_hyphens_and_its_numbers_stay_whole():
    name = "a_rather_long_operator-numba_parallel-f32-16777216-cpu"
    table = Table("T", (Column("cell", align="left"), Column("time")), ((Text(name), Text("3 ns")),))
    for width in range(24, 60):
        shown = terminal.render([table], width)
        assert "16777216" in shown, width
        assert max(map(len, shown.splitlines())) <= width
