"""Names: one class has one name, and a package's ``__all__`` is true."""

import ast
import collections
import importlib
import types

import pytest

from suites.unit.structure.house import PACKAGES, modules


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
