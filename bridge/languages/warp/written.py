"""Reads from the source of a Warp kernel which parameters it writes to."""

from __future__ import annotations

import ast

import warp as wp

from bridge.source.parsing import parse


def written_names(kernel: wp.Kernel) -> set[str]:
    """Names of arrays whose elements the kernel assigns or changes atomically. Does not look into called functions."""
    found = set()
    for node in ast.walk(_tree(kernel)):
        targets: list[ast.expr] = []
        if isinstance(node, ast.Assign):
            targets = node.targets
        elif isinstance(node, ast.AugAssign):
            targets = [node.target]
        elif isinstance(node, ast.Call) and called_name(node).startswith(_WRITING):
            found |= {name.id for name in map(_root, _changed(node)) if isinstance(name, ast.Name)}
        # Assigning to a name makes a variable; assigning to an element of it changes the array.
        elements = [target for target in targets if isinstance(target, ast.Subscript | ast.Attribute)]
        found |= {name.id for name in map(_root, elements) if isinstance(name, ast.Name)}
    return found


def extremes_of(kernel: wp.Kernel) -> frozenset[str]:
    """Parameters that the kernel uses only for ``atomic_max`` and ``atomic_min``."""
    tree = _tree(kernel)
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and called_name(node) in _EXTREMES]
    changed = [name for node in calls for name in map(_root, _changed(node)) if isinstance(name, ast.Name)]
    others = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and node not in changed}
    return frozenset({name.id for name in changed} - others)


_WRITING = ("atomic_", "tile_atomic_", "store", "tile_store")
_EXTREMES = ("atomic_max", "atomic_min")


def _tree(kernel: wp.Kernel) -> ast.AST:
    return parse(kernel.adj.source)


def called_name(node: ast.Call) -> str:
    """Name of the called function, without the name of its module."""
    return node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")


def _changed(node: ast.Call) -> list[ast.expr]:
    """The array that one of Warp's writing functions writes to: its first argument."""
    return [*node.args[:1], *(keyword.value for keyword in node.keywords if keyword.arg in ("a", "arr"))]


def _root(node: ast.expr) -> ast.expr:
    """The array that an element, a row or a component belongs to."""
    while isinstance(node, ast.Subscript | ast.Attribute):
        node = node.value
    return node
