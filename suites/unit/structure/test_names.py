"""Names: one module has one name, and a package's ``__all__`` is true."""

import ast
import collections
import importlib
import types

import pytest

from suites.unit.structure.house import PACKAGES, modules

SHARED = {"__init__", "__main__", "errors"}
"""Names that a module of each package may have."""

CATALOGUES = ("suites.ops", "suites.backends", "suites.mutants", "bridge.languages")
"""Folders whose files are named for an operator, a backend or a language: two of them may have a file for the same."""


def test_no_two_modules_have_one_name():
    homes = collections.defaultdict(list)
    for name, module in modules().items():
        if module.path.stem not in SHARED and not name.startswith(tuple(f"{folder}." for folder in CATALOGUES)):
            homes[module.path.stem].append(name)
    assert {stem: names for stem, names in homes.items() if len(names) > 1} == {}


def test_no_two_classes_of_a_package_have_one_name():
    homes = collections.defaultdict(list)
    for name, module in modules().items():
        for node in module.tree.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                homes[name.partition(".")[0], node.name].append(name)
    assert {key: names for key, names in homes.items() if len(names) > 1} == {}


@pytest.mark.parametrize("package", PACKAGES)
def test_all_lists_every_public_name_once(package):
    face = importlib.import_module(package)
    assert len(face.__all__) == len({*face.__all__})
    for name in face.__all__:
        assert getattr(face, name).__doc__ is not None or not callable(getattr(face, name)), name
    held = {
        name
        for name, value in vars(face).items()
        if not name.startswith("_") and not isinstance(value, types.ModuleType) and _is_ours(value)
    }
    assert held <= {*face.__all__}


def _is_ours(value):
    return str(getattr(value, "__module__", "")).partition(".")[0] in PACKAGES
