"""Answers questions about the syntax of loops and expressions."""

from __future__ import annotations

import ast
from collections.abc import Iterator


def steps(node: ast.While) -> tuple[str, ast.expr] | None:
    """The variable that each turn of a loop moves on by the last statement of its body, and the distance."""
    match node.body[-1]:
        case ast.AugAssign(target=ast.Name(id=name), op=ast.Add(), value=step):
            own = [each for each in stores(node) if each == name]
            skips = any(isinstance(each, ast.Continue) for each in ast.walk(node))
            is_fixed = names(step).isdisjoint(stores(node))
            return (name, step) if len(own) == 1 and not skips and is_fixed else None
    return None


def compares(node: ast.While, name: str) -> bool:
    """Whether a loop runs while a variable is below something that the loop does not change."""
    match node.test:
        case ast.Compare(left=ast.Name(id=left), ops=[ast.Lt()], comparators=[right]):
            return left == name and names(right).isdisjoint(stores(node))
    return False


def names(node: ast.AST) -> set[str]:
    """The names that are used."""
    return {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}


def stores(node: ast.AST) -> Iterator[str]:
    """The names that are given a value, each as often as that stands there."""
    return (each.id for each in ast.walk(node) if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store))


def has_element(node: ast.AST) -> bool:
    """Whether elements are used."""
    return any(isinstance(each, ast.Subscript) for each in ast.walk(node))
