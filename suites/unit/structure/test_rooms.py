"""The rooms of the house: which imports which, and that no import leads back."""

import collections

import pytest

from suites.unit.processes import output
from suites.unit.structure.house import arrows, circle, folders, imports, modules, room

ROOMS = {
    "bridge": {
        "__init__": "debug errors ffi languages operator xla_custom_kernel",
        "xla_custom_kernel": "languages operator",
        "operator": "agreement debug errors ffi languages signature",
        "languages": "compat debug errors ffi signature source",
        "debug": "agreement errors ffi",
        "agreement": "errors",
        "compat": "errors",
        "ffi": "cached_files errors",
        "signature": "errors",
        "source": "errors",
    },
    "suites": {
        "__main__": "sessions",
        "plugin": "checks sessions",
        "sessions": "backends bench cells checks declare errors mutants numerics revisions sanitize",
        "revisions": "cells errors",
        "sanitize": "cells checks",
        "dispatch": "backends",
        "mutants": "__init__ backends declare ops",
        "bench": "backends cells checks declare errors numerics",
        "checks": "backends cells declare errors guards numerics",
        "cells": "backends declare errors numerics ops",
        "even_rows": "declare numerics ops",
        "ops": "__init__ backends",
        "__init__": "backends declare errors numerics",
        "declare": "backends errors numerics",
        "backends": "errors numerics",
    },
    "reports": {
        "cli": "errors judgement options pages records render statistics web",
        "__init__": "errors judgement pages records statistics",
        "gate": "errors options pages records render statistics",
        "web": "errors judgement pages records render statistics",
        "judgement": "options records",
        "options": "errors records render",
        "pages": "errors records render statistics",
        "render": "errors",
        "records": "errors",
    },
}
"""The rooms that each room imports, from the top of the house down. A new arrow is a decision: draw it here."""


@pytest.mark.parametrize("package", ROOMS)
def test_the_arrows_between_rooms_are_these(package):
    found = collections.defaultdict(set)
    for one, other in arrows(package):
        found[one].add(other)
    assert {name: " ".join(sorted(others)) for name, others in found.items()} == ROOMS[package]


@pytest.mark.parametrize("folder", folders())
def test_no_room_leads_back_to_itself(folder):
    assert circle(arrows(folder)) is None


def test_no_module_leads_back_to_itself():
    # A package imports its modules, which is no circle: none of them imports the package.
    faces = {name for name, module in modules().items() if module.is_face}
    assert circle((one, other) for one, other in imports() if one not in faces) is None


@pytest.mark.parametrize(("package", "others"), [("bridge", ("suites", "reports")), ("reports", ("suites", "bridge"))])
def test_bridge_and_reports_import_no_other_package(package, others):
    assert [(one, two) for one, two in imports() if one.startswith(package) and two.partition(".")[0] in others] == []


def test_the_operator_and_the_ffi_name_no_kernel_language():
    """The operator room knows languages by their protocol; the FFI room does not know of any."""
    allowed = {"bridge.operator": {"bridge.languages.language"}, "bridge.ffi": set()}
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
