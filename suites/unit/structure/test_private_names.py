"""Private names of other libraries stand in ``bridge/compat/``, each with its reason, and a page lists them."""

import ast
import importlib
import importlib.util
import pkgutil

import pytest

import bridge.compat
from suites.unit.structure.house import PROJECT, modules

_COMPAT = "bridge.compat"
_READERS = ("getattr", "setattr", "hasattr", "delattr", "attrgetter", "get", "of", "_codegen")
"""Functions that take the name of an attribute; the last three are those of ``bridge.compat``."""

_PACKAGES = {"jax": "jax", "warp": "warp", "tvm_ffi": "tvm_ffi", "cutile": "cuda.tile", "numba_cuda": "numba.cuda"}
"""What the file of a library imports, where it has another name."""


def _is_private(name):
    return name.startswith("_") and not name.endswith("_")


def _own_names(tree):
    """Names that a file defines itself: its functions, classes, variables and the attributes of its objects."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and _is_self(node.value):
            yield node.attr


def _is_self(node):
    return isinstance(node, ast.Name) and node.id in ("self", "cls")


def _used_names(tree):
    """Names that a file takes from objects and modules: ``x._a``, ``getattr(x, "_a")``, and imports."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and not _is_self(node.value):
            yield node.attr
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name | ast.Attribute):
            called = getattr(node.func, "id", None) or getattr(node.func, "attr", None)
            if called in _READERS:
                texts = [each.value for each in node.args if isinstance(each, ast.Constant)]
                yield from (part for text in texts if isinstance(text, str) for part in text.split("."))
        elif isinstance(node, ast.ImportFrom | ast.Import):
            names = [getattr(node, "module", None) or "", *(alias.name for alias in node.names)]
            if not any(name.startswith("bridge") for name in names):
                yield from (part for name in names for part in name.split("."))


def private_names(tree):
    """Private names that a file uses and does not define."""
    return sorted({name for name in _used_names(tree) if _is_private(name)} - {*_own_names(tree)})


def test_no_private_name_of_a_library_outside_compat():
    found = {
        name: names
        for name, module in modules().items()
        if name.startswith("bridge.") and not name.startswith(_COMPAT)
        if (names := private_names(module.tree))
    }
    assert found == {}


def libraries():
    """The files of libraries, by name; ``cpython.py`` holds names that Python documents."""
    for each in pkgutil.iter_modules(bridge.compat.__path__):
        if each.name not in ("library", "cpython"):
            package = _PACKAGES.get(each.name, each.name)
            pytest.importorskip(package, reason=f"{package} is not installed")
            yield importlib.import_module(f"{_COMPAT}.{each.name}")


def table():
    """The table of the page, as Markdown."""
    yield "| library | tried | name | why |"
    yield "| --- | --- | --- | --- |"
    for module in libraries():
        library = module.LIBRARY
        tried = f"{library.oldest} to {library.newest}"
        yield from (f"| {library.name} | {tried} | `{name}` | {why} |" for name, why in library.uses.items())


def test_every_private_name_has_a_reason():
    seen = set()
    for module in libraries():
        names, reasons = private_names(modules()[module.__name__].tree), " ".join(module.LIBRARY.uses)
        assert [name for name in names if name not in reasons] == []
        seen |= {*names}
    assert {"_src", "_tm", "_active"} <= seen, "or such names are not seen elsewhere either"


def test_contributors_read_the_table():
    assert "\n".join(table()) in (PROJECT / "docs/contributing.md").read_text("utf-8")
