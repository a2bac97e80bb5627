"""The page of a job: failures first, folded details, never too large, and names that stay data."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from reports.errors import ReportError
from reports.pages.run_page import page_of
from reports.records.status import Status
from reports.render.job_summary import MOST_BYTES, append_job_summary, job_summary
from reports.render.layout import Column, Style, Table, Text
from suites.unit.reports.builders import make_cell, make_record

HOSTILE = [
    "<script>alert(1)</script>",
    "</summary></details><img src=x onerror=alert(1)>",
    "`code` **bold** [link](javascript:alert(1))",
    "https://example.org/a?b=c www.example.org",
    "line\n\n# heading\n- item",
    "\x1b[31mred\x07",
    "&lt;b&gt; $x$ ~~y~~ @someone #17",
]


def table_of(count, bad=(), title="Times", role="detail", notes=()):
    rows = tuple(
        (Text(f"row {number}"), Text("12.3 µs", Style.BAD if number in bad else Style.PLAIN)) for number in range(count)
    )
    return Table(title, (Column("name", align="left"), Column("time")), rows, tuple(notes), role=role)


def test_verdicts_and_failures_come_first_then_the_summary_then_folded_details():
    tables = [
        table_of(5, bad=[3], title="All times", notes=["cells: 4 passed, 1 failed", "CRASHED numba: signal 11 (x)"]),
        table_of(2, title="Means", role="summary"),
        table_of(1, title="No proof", role="alarm"),
    ]
    text = job_summary(tables, origin="kernel-bridge show a")
    places = [
        text.index(part)
        for part in (
            "### No proof", "- **All times**: 4 passed, 1 failed", "### 1 rows need a look: All times",
            "- CRASHED numba: signal 11", "### Means", "<details><summary>All times<", "| row 4 |", "</details>",
        )
    ]  # fmt: skip
    assert places == sorted(places)
    assert "left out" not in text


ROLES = st.sampled_from(["alarm", "summary", "detail"])


@given(st.lists(st.tuples(st.integers(0, 600), ROLES, st.text()), max_size=5), st.integers(0, MOST_BYTES // 4))
@settings(max_examples=20, deadline=None)
def test_no_page_is_larger_than_its_room(drawn, most):
    tables = [table_of(count, range(0, count, 3), title, role, [title] * (count % 50)) for count, role, title in drawn]
    text = job_summary(tables, most, "kernel-bridge show 20260101T000000-aaaa")
    assert len(text.encode()) <= most
    assert text.count("<details>") == text.count("</details>")


def test_what_is_left_out_is_counted_and_its_place_is_named():
    text = job_summary([table_of(5000), table_of(50)], 3_000, "kernel-bridge show 20260101T000000-aaaa")
    assert "1 tables are left out to keep this page short." in text
    assert "kernel-bridge show 20260101T000000-aaaa shows all." in text
    assert "first 100 of 5,000 rows" in job_summary([table_of(5000)])
    # Failures do not push the summary out.
    many = job_summary([table_of(5000, range(0, 5000, 4)), table_of(2, title="Means", role="summary")])
    assert many.index("1,250 rows need a look") < many.index("### Means") < many.index("<details>")


def test_commands_that_append_stay_below_the_limit_together(tmp_path):
    file = tmp_path / "summary.md"
    file.write_text("# Before\n" + "x" * 20_000, encoding="utf-8")
    for _ in range(15):
        append_job_summary([table_of(4000, bad=[1])], file)
        assert file.stat().st_size <= MOST_BYTES
    assert file.stat().st_size > 50_000
    with pytest.raises(ReportError, match="cannot be written"):
        append_job_summary([table_of(1)], tmp_path)


@pytest.mark.parametrize("name", HOSTILE)
def test_names_are_data(name):
    records = [
        make_record(make_cell(operator=name, backend=name)),
        make_record(make_cell(operator=name, backend="jnp"), status=Status.CRASHED, reason=name),
    ]
    text = job_summary(page_of(records).tables, origin=name)
    plain = job_summary(page_of([make_record(make_cell(operator="x", backend="y"))]).tables)
    found = MarkdownIt("gfm-like", {"linkify": False}).render(text)
    for tag in ("script", "img", "a ", "h1", "del", "strong><strong"):
        assert f"<{tag}" not in found.replace("<article", "")
    assert found.count("<details>") == found.count("</details>") == plain.count("<details>")
    assert "://" not in text.replace(r"\://", "") or "example" not in name
    assert "\x1b" not in text
    # Each row of a table has as many cells as its head.
    for table in re.findall(r"<table>.*?</table>", found, re.DOTALL):
        counts = {len(re.findall(r"<t[hd]", row)) for row in re.findall(r"<tr>.*?</tr>", table, re.DOTALL)}
        assert len(counts) == 1
