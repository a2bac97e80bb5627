"""A file with operators imports all that it needs from the package itself, which costs nothing to import."""

import ast
from pathlib import Path

import suites


def test_checkers_of_types_see_the_exports():
    tree = ast.parse(Path(suites.__file__).read_text(encoding="utf-8"))
    (typed,) = (node for node in tree.body if isinstance(node, ast.If))
    imported = {alias.name: node.module for node in typed.body for alias in node.names}
    assert imported == {name: f"suites.{module}" for name, module in suites._HOMES.items()}
