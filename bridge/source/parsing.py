"""The source of functions as syntax trees."""

from __future__ import annotations

import ast
import textwrap
import threading

PARSING = threading.RLock()
"""Held while source is parsed: ``ast.parse`` of Python 3.11 fails ("AST constructor recursion depth mismatch") in a
thread that another one, which is in it as well, takes over from."""


def parse(source: str) -> ast.Module:
    """The syntax tree of source that may be indented.

    Raises:
        SyntaxError: It is not the source of whole statements.
    """
    with PARSING:
        return ast.parse(textwrap.dedent(source))
