"""Plain English: what can be tested of it."""

import ast
import io
import re
import tokenize

import pytest

from suites.unit.structure.house import modules

RIDDLES = {
    "that of, those of": r"\b(that|those) of\b",
    "X in, Y out": r"\bin, [^.]{1,80} out\b",
    "lest, thereof": r"\b(lest|thereof|thereby|whence|hence)\b",
}


def prose(module):
    """The docstrings and comments of a module, each with its line."""
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield node.lineno, node.value.value
    source = module.path.read_text(encoding="utf-8")
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string


@pytest.mark.parametrize("riddle", RIDDLES)
def test_no_docstring_or_comment_is_a_riddle(riddle):
    found = [
        f"{module.path}:{line}"
        for module in modules().values()
        for line, text in prose(module)
        if re.search(RIDDLES[riddle], text)
    ]
    assert found == []
