"""Names with control characters are shown, not obeyed."""

import unicodedata

from hypothesis import given, settings
from hypothesis import strategies as st

from reports.render.markdown import escape
from reports.render.visible import visible


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
    assert [escape(text) for text in ("# a", "- a", "1. a", "2) a", "1.00 ns", "a~b$c&lt;")] == [
        r"\# a", r"\- a", r"1\. a", r"2\) a", "1.00 ns", r"a\~b\$c\&lt;",
    ]  # fmt: skip
