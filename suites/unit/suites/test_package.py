"""What a file with operators needs is importable from the package itself, which costs nothing until then."""

import ast
import dataclasses
import importlib
import inspect
import subprocess
import sys
from pathlib import Path

import pytest

import suites


def test_exports_are_sorted_once_each_and_there():
    assert sorted(set(suites.__all__)) == suites.__all__
    assert set(suites._HOMES) == set(suites.__all__) <= set(dir(suites))
    for name, module in suites._HOMES.items():
        assert getattr(suites, name) is getattr(importlib.import_module(f"suites.{module}"), name)


def test_checkers_of_types_see_what_there_is():
    tree = ast.parse(Path(suites.__file__).read_text(encoding="utf-8"))
    (typed,) = (node for node in tree.body if isinstance(node, ast.If))
    imported = {alias.name: node.module for node in typed.body for alias in node.names}
    assert imported == {name: f"suites.{module}" for name, module in suites._HOMES.items()}


def test_what_a_field_of_an_operator_may_hold_is_exported():
    for name in ("Operator", "Gradient", "Limitation", "ErrorCase", "Truth", "Expected"):
        declared = getattr(suites, name)
        types = " ".join(str(field.type) for field in dataclasses.fields(declared))
        module = vars(inspect.getmodule(declared))
        used = {word for word in types.replace("[", " ").replace("]", " ").replace(",", " ").split() if word in module}
        classes = {word for word in used if getattr(module[word], "__module__", "").startswith("suites.")}
        assert classes - {"Inputs", "Array", "Pullback"} <= set(suites.__all__)


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="module 'suites' has no attribute 'Operater'"):
        _ = suites.Operater


def test_importing_the_package_imports_nothing_heavy():
    code = (
        "import sys; before = set(sys.modules); import time; start = time.perf_counter(); import suites; "
        "took = time.perf_counter() - start; "
        "print(1e3 * took, *{name.partition('.')[0] for name in set(sys.modules) - before})"
    )
    root = Path(suites.__file__).parent.parent
    said = [
        subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=root
        ).stdout.split()
        for _ in range(3)
    ]
    assert all(not {"jax", "numba", "numpy", "warp", "pytest", "bridge", "reports"} & set(names) for _, *names in said)
    assert min(float(ms) for ms, *_ in said) < 5
