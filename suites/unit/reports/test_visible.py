"""Names with control characters are shown, not obeyed."""

import contextlib
import io
import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reports.render.markdown import escape
from reports.render.visible import visible
from suites.sessions.commands.command_line import main
from suites.unit.reports.builders import make_cell, make_record, whole

EVIL = {
    "colour": "\x1b[31mred\x1b[0m",
    "one byte": "\x9b2J",
    "line": "a\nb",
    "column": "a\r\tb",
    "pipe": "a|b",
    "code": "a`b`|c",
    "html": "<script>alert(1)</script>&amp;",
    "reversed": "a\u202eb\u2066",
    "separator": "a\u2028b",
    "link": "[a](http://b)",
}


@pytest.mark.parametrize("name", EVIL.values(), ids=EVIL)
@pytest.mark.parametrize("form", ["terminal", "markdown", "csv"])
def test_no_output_obeys_a_name(tmp_path, name, form):
    records = [make_record(make_cell(operator=name, backend=backend)) for backend in ("jnp", name)]
    path, summary = tmp_path / "a.jsonl", tmp_path / "summary.md"
    path.write_bytes(whole(records))
    shown, errors = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(shown), contextlib.redirect_stderr(errors):
        code = main(["show", str(path), "--format", form])
        compared = main(["compare", str(path), str(path), "--format", form, "--summary", str(summary)])
    assert (code, compared) == (0, 0)
    for text in (shown.getvalue(), errors.getvalue(), summary.read_text(encoding="utf-8")):
        assert not {unicodedata.category(each) for each in text if each != "\n"} & {"Cc", "Cf", "Zl", "Zp"}
    for line in summary.read_text(encoding="utf-8").splitlines():
        assert "<script>" not in line.replace("\\<", "")
        if line.startswith("| ") and name in ("a|b", "a`b`|c"):
            assert "a|b" not in line
    if form == "csv":
        assert len(shown.getvalue().splitlines()) == 5


@given(st.text())
@settings(max_examples=200)
def test_visible_text_is_one_line_without_control_characters(text):
    once = visible(text)
    assert len(once.splitlines()) <= 1
    assert visible(once) == once
    assert not {unicodedata.category(each) for each in once} & {"Cc", "Cf", "Cs", "Zl", "Zp"}
    once.encode()


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("add", "add"),
        ("12 µs → ü", "12 µs → ü"),
        ("a\x1b[0m", r"a\x1b[0m"),
        ("a\nb\tc", r"a\nb\tc"),
        ("\u202e", r"\u202e"),
        ("\U000e0001", r"\U000e0001"),
    ],
)
def test_what_is_harmless_stays(text, shown):
    assert visible(text) == shown


def test_what_begins_a_line_of_markdown_begins_no_list_and_no_heading():
    assert [escape(text) for text in ("# a", "- a", "1. a", "2) a", "1.00 ns", "a~b$c&lt;")] == [
        r"\# a", r"\- a", r"1\. a", r"2\) a", "1.00 ns", r"a\~b\$c\&lt;",
    ]  # fmt: skip
