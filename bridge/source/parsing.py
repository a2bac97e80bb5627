"""Parses the source of functions into syntax trees, safely with several threads."""

from __future__ import annotations

import ast
import textwrap
import threading

PARSING = threading.RLock()
"""Held while source is parsed. In Python 3.11, ``ast.parse`` fails ("AST constructor recursion depth mismatch") if the
interpreter switches between two threads that are both in it."""


def parse(source: str) -> ast.Module:
    """The syntax tree of source that may be indented.

    Raises:
        SyntaxError: It is not the source of whole statements.
    """
    with PARSING:
        return ast.parse(textwrap.dedent(source))
