"""The rooms of the house: imports go down its floors, and none leads back."""

import ast
import collections
import importlib
import itertools
import re
import types

import pytest

from suites.unit.processes import output
from suites.unit.structure.house import PACKAGES, PROJECT, arrows, folders, imports, modules, require_no_circle, room

FLOORS = {
    "bridge": "adapters operator languages debug ffi errors",
    "suites": "commands compare validate bench timing checks cells ops declare backends kernels numerics errors",
    "reports": "cli web pages statistics records errors",
}
"""Rooms of each package, the highest first."""


@pytest.mark.parametrize("package", FLOORS)
def test_no_import_goes_up_a_floor(package):
    upwards = {(low, high) for high, low in itertools.combinations(FLOORS[package].split(), 2)}
    assert arrows(package) & upwards == set()


@pytest.mark.parametrize("folder", folders())
def test_no_room_leads_back_to_itself(folder):
    require_no_circle(arrows(folder))


def test_no_module_leads_back_to_itself():
    # A package imports its modules, which is no circle: none of them imports the package.
    faces = {name for name, module in modules().items() if module.is_face}
    require_no_circle((one, other) for one, other in imports() if one not in faces)


@pytest.mark.parametrize(("package", "others"), [("bridge", ("suites", "reports")), ("reports", ("suites", "bridge"))])
def test_bridge_and_reports_import_no_other_package(package, others):
    assert [(one, two) for one, two in imports() if one.startswith(package) and two.partition(".")[0] in others] == []


def test_the_operator_and_the_ffi_name_no_kernel_language():
    """The operator room knows languages by their protocol; the FFI room does not know of any."""
    allowed = {"bridge.operator": {"bridge.table"}, "bridge.ffi": set()}
    for folder, known in allowed.items():
        taken = {two for one, two in imports() if one.startswith(folder) and room(two, "bridge") == "languages"}
        assert taken <= known


HEAVY = {
    "reports": {"pandas", "numpy", "rich", "jax", "bridge", "suites"},
    "suites": {"jax", "numba", "numpy", "warp", "pytest", "bridge", "reports"},
    "suites.plugin": {"jax", "numba", "numpy", "pandas", "warp", "hypothesis"},
}
"""What the import of a package must not import, because it would take long or is another room."""


@pytest.mark.parametrize("package", HEAVY)
def test_importing_a_package_imports_nothing_heavy(package):
    assert output("-c", f"import {package}, sys; print(*{HEAVY[package]} & {{*sys.modules}})") == ""


def test_nothing_in_reports_imports_jax_or_its_neighbours():
    code = (
        "import importlib, pkgutil, reports, sys\n"
        "for module in pkgutil.walk_packages(reports.__path__, 'reports.'):\n"
        "    importlib.import_module(module.name) \n"
        "print(*{'jax', 'numba', 'bridge', 'suites'} & {*sys.modules})"
    )
    assert output("-c", code) == ""


def test_contributors_read_of_every_folder_and_of_no_other():
    page = (PROJECT / "docs/contributing.md").read_text(encoding="utf-8")
    named = {name for row in re.findall(r"^\| (`.*?) \|", page, re.MULTILINE) for name in re.findall(r"`(.*?)/`", row)}
    assert [name for name in sorted(named) if not (PROJECT / name).is_dir()] == []
    assert {"/".join(name.split(".")[:2]) for name in folders() if "." in name} <= named


# One class has one name, and the __all__ of a package is true.


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
        if not name.startswith("_") and not isinstance(value, types.ModuleType)
        if str(getattr(value, "__module__", "")).partition(".")[0] in PACKAGES
    }
    assert held <= {*face.__all__}
