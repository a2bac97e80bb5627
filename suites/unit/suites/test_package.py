"""A file with operators imports all that it needs from the package itself, which costs nothing to import."""

import ast
import importlib
from pathlib import Path

import pytest

import suites


def test_exports_are_there_once_each():
    assert len(set(suites.__all__)) == len(suites.__all__)
    assert set(suites._HOMES) == set(suites.__all__) <= set(dir(suites))
    for name, module in suites._HOMES.items():
        assert getattr(suites, name) is getattr(importlib.import_module(f"suites.{module}"), name)


def test_checkers_of_types_see_the_exports():
    tree = ast.parse(Path(suites.__file__).read_text(encoding="utf-8"))
    (typed,) = (node for node in tree.body if isinstance(node, ast.If))
    imported = {alias.name: node.module for node in typed.body for alias in node.names}
    assert imported == {name: f"suites.{module}" for name, module in suites._HOMES.items()}


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="module 'suites' has no attribute 'Operater'"):
        _ = suites.Operater
