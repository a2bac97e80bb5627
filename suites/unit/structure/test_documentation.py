"""Every public class, function and method says what it does, and contributors read of every folder."""

import ast
import re

from suites.unit.structure.house import PROJECT, folders, modules

ENTITIES = ("suites.ops.", "suites.mutants.")
"""Folders of declarations: their kernels are described by the module."""


def _public(body, where):
    for node in body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef) and not node.name.startswith("_"):
            yield node, f"{where}.{node.name}"
            if isinstance(node, ast.ClassDef):
                yield from _public(node.body, f"{where}.{node.name}")


def _needs_none(node):
    """Whether a method implements what its base class or protocol describes, or its name says all."""
    names = {getattr(each, "attr", getattr(each, "id", "")) for each in node.decorator_list}
    return bool(names & {"property", "cached_property", "overload", "override", "setter", "fixture", "classmethod"})


def test_every_public_class_and_function_is_documented():
    found = [
        where
        for name, module in modules().items()
        if not name.startswith(ENTITIES) and not module.is_test
        for node, where in _public(module.tree.body, name)
        if not ast.get_docstring(node) and not (isinstance(node, ast.FunctionDef) and _needs_none(node))
    ]
    assert found == []


def test_contributors_read_of_every_folder_and_of_no_other():
    page = (PROJECT / "docs/contributing.md").read_text(encoding="utf-8")
    named = {name for row in re.findall(r"^\| (`.*?) \|", page, re.MULTILINE) for name in re.findall(r"`(.*?)/`", row)}
    assert [name for name in sorted(named) if not (PROJECT / name).is_dir()] == []
    assert {"/".join(name.split(".")[:2]) for name in folders() if "." in name} <= named
