"""Every module, and every public class, function and method of a module, says what it does."""

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


def test_every_module_begins_with_a_sentence():
    found = [
        name
        for name, module in modules().items()
        if module.path.read_text(encoding="utf-8").strip() and not (ast.get_docstring(module.tree) or "").strip()
    ]
    assert found == []


def test_every_module_says_what_it_does_with_an_active_verb():
    """Such as "Renders tables as Markdown." A test file says what it establishes, a declaration what it computes."""
    found = []
    for name, module in modules().items():
        text = ast.get_docstring(module.tree) or ""
        if not text or name.startswith(ENTITIES):
            continue
        first = text.split(None, 1)[0].rstrip(":,")
        if not re.fullmatch(r"[A-Z][a-z]+s", first):
            found.append(f"{name}: {text.splitlines()[0]}")
    assert found == []


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
