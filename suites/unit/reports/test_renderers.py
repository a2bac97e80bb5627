"""Tables as terminal text and as Markdown."""

import re

import pytest

from reports.pages.times import benchmark_tables
from reports.records.status import Status
from reports.render import markdown, terminal
from reports.render.layout import Column, Row, Style, Table, Text
from suites.unit.reports.builders import make_cell, make_record

BACKENDS = ["jnp", "cute", "numba_cuda", "pallas", "triton", "warp"]


def many(backends):
    """Cells of every unit and of the longest status, on several backends."""
    records = [
        make_record(make_cell(backend=backend, size=size), 3.456 * size * (1 + place / 7), shapes=[[size]])
        for place, backend in enumerate(backends)
        for size in (64, 4096, 16777216)
    ]
    failed = make_cell(backend=backends[-1], size=1)
    return benchmark_tables([*records, make_record(failed, status=Status.NONDETERMINISTIC)])


@pytest.mark.parametrize("backends", [BACKENDS[:2], BACKENDS[:3], BACKENDS])
@pytest.mark.parametrize("width", [60, 80, 100, 160])
def test_no_line_is_wider_than_the_terminal(width, backends):
    lines = terminal.render(many(backends), width).splitlines()
    assert max(map(len, lines)) <= width


@pytest.mark.parametrize("width", [60, 80, 100, 160])
def test_no_number_is_wrapped_or_cut_at_any_width(width):
    shown = terminal.render(many(BACKENDS), width)
    wide = terminal.render(many(BACKENDS), 1000)
    time = r"\d+\.?\d* (?:ns|µs|ms|s)\b"
    assert sorted(re.findall(time, shown)) == sorted(re.findall(time, wide))
    assert "NONDETERMINISTIC" in shown


def test_columns_line_up_in_the_terminal():
    text = terminal.render(many(BACKENDS[:3])[:1], 160)
    ruled = [line for line in text.splitlines() if "│" in line]
    assert len({tuple(i for i, c in enumerate(line) if c == "│") for line in ruled}) == 1


SMALL = Table(
    "A title",
    (Column("size"), Column("time", "jnp"), Column("time", "warp"), Column("bw%", "warp")),
    (
        Row((Text("1"), Text("2 ns", Style.BEST), Text("3 ns"), Text("9")), "op"),
        Row((Text("2"), Text("2 ns"), Text("OOM", Style.BAD, span=True), Text("")), "op"),
    ),
    ("a | note with `ticks` and [17]",),
    "operator",
)


def test_terminal_text():
    assert terminal.render([SMALL], 60).splitlines() == [
        "A title",
        "     │  jnp  │   warp",
        "size │  time │ time bw%",
        "─────┼───────┼─────────",
        "op",
        "   1 │ *2 ns │ 3 ns   9",
        "   2 │  2 ns │      OOM",
        "  *: fastest of its row",
        "  a | note with `ticks` and [17]",
    ]


def test_colour_only_where_asked():
    assert "\x1b[" not in terminal.render([SMALL], 60)
    coloured = terminal.render([SMALL], 60, color=True)
    assert "\x1b[" in coloured
    assert re.sub(r"\x1b\[[0-9;]*m", "", coloured) == terminal.render([SMALL], 60)


def test_markdown_text():
    assert markdown.render([SMALL]).splitlines() == [
        "### A title",
        "",
        "| operator | size | jnp time | warp time | bw% |",
        "| -------- | ---: | -------: | --------: | --: |",
        "| **op**   |    1 | **2 ns** |      3 ns |   9 |",
        "|          |    2 |     2 ns |     `OOM` |     |",
        "",
        "- **bold**: fastest of its row",
        r"- a \| note with \`ticks\` and \[17\]",
    ]


def test_markdown_leaves_words_with_underscores_alone():
    assert markdown.escape("WRONG_VALUE in __init__ of *x*\nnext") == r"WRONG_VALUE in \_\_init\_\_ of \*x\* next"


@pytest.mark.parametrize("render", [terminal.render, markdown.render])
def test_a_table_without_rows_says_so(render):
    text = render([Table("Empty", (Column("size"),), ())])
    assert "Empty" in text
    assert "(none)" in text


@pytest.mark.parametrize("render", [terminal.render, markdown.render])
def test_tables_are_apart(render):
    assert re.search(r"\n\n(### )?A title", render([SMALL, SMALL]))


def test_a_long_name_is_broken_at_its_hyphens_and_its_numbers_stay_whole():
    name = "a_rather_long_operator-numba_parallel-f32-16777216-cpu"
    table = Table("T", (Column("cell", align="left"), Column("time", "x")), (Row((Text(name), Text("3 ns"))),))
    for width in range(24, 60):
        shown = terminal.render([table], width)
        assert "16777216" in shown, width
        assert max(map(len, shown.splitlines())) <= width
    run = "20261122T145809-aca4"
    assert run in terminal.render([Table("T", (Column("why", align="left"),), (Row((Text(f"a run, {run}"),)),))], 24)
