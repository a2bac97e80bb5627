"""Writes a reference as a formula, so that the reason of a failure says in which order it computes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
from jax.extend import core

from suites.numerics.arrays import Inputs
from suites.numerics.precision import precision

LONGEST = 120
"""Characters of a formula; of a longer one, the operations are named in their order."""

_SYMBOLS = {"add": "+", "add_any": "+", "sub": "-", "mul": "*", "div": "/", "rem": "%", "pow": "**"}
_SYMBOLS |= {"lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "==", "ne": "!=", "and": "&", "or": "|"}
_SILENT = {
    "stop_gradient",
    "broadcast_in_dim",
    "convert_element_type",
    "reshape",
    "squeeze",
    "transpose",
    "copy",
    "copy_p",
}
_LOOPS = ("scan", "while", "cond")
_CALLS = ("jaxpr", "call_jaxpr", "fun_jaxpr")
_MOST_NAMED = 8


def formula(reference: Callable[..., Any], inputs: Inputs, names: Sequence[str]) -> str:
    """Returns a reference as a formula such as ``((a + b) + c) / 3.0``, or the names of its operations in order.

    It is empty where the reference cannot be traced.
    """
    try:
        with precision(*(array.dtype for array in inputs)):
            closed = jax.make_jaxpr(lambda *arrays: jax.tree.leaves(reference(*arrays)))(*inputs)
    except Exception:  # a reference that cannot be traced
        return ""
    operations: list[str] = []
    found = _evaluated(closed.jaxpr, list(names), operations)
    text = ", ".join(each[1:-1] if each.startswith("(") and each.endswith(")") else each for each in found)
    if 0 < len(text) <= LONGEST:
        return text
    more = f" and {len(operations) - _MOST_NAMED} more" if len(operations) > _MOST_NAMED else ""
    return ", ".join(operations[:_MOST_NAMED]) + more


def _evaluated(jaxpr: Any, arguments: Sequence[str], operations: list[str]) -> list[str]:
    known = dict(zip(jaxpr.invars, arguments, strict=True))
    known |= dict.fromkeys(jaxpr.constvars, "constant")

    def read(atom: Any) -> str:
        return _number(atom.val) if isinstance(atom, core.Literal) else known[atom]

    for equation in jaxpr.eqns:
        name, operands = equation.primitive.name, [read(atom) for atom in equation.invars]
        inner = next((equation.params[key] for key in _CALLS if key in equation.params), None)
        inner = getattr(inner, "jaxpr", inner)
        if inner is not None and name not in _LOOPS and len(inner.invars) == len(operands):
            results = _evaluated(inner, operands, operations)
        else:
            operations += [] if name in _SILENT else [name]
            results = [_shortened(_applied(equation, name, operands))] * len(equation.outvars)
        known.update(zip(equation.outvars, results, strict=True))
    return [read(atom) for atom in jaxpr.outvars]


def _applied(equation: Any, name: str, operands: Sequence[str]) -> str:
    if name in _SILENT and operands:
        return operands[0]
    if name in _SYMBOLS and len(operands) == 2:
        return f"({operands[0]} {_SYMBOLS[name]} {operands[1]})"
    if name == "neg":
        return f"-{operands[0]}"
    if name == "integer_pow":
        return f"{operands[0]}**{equation.params['y']}"
    arguments = ", ".join(each[1:-1] if each.startswith("(") and each.endswith(")") else each for each in operands)
    return f"{name.removeprefix('reduce_')}({arguments})"


def _shortened(text: str) -> str:
    """The text, or dots in place of one that is too long anyway."""
    return text if len(text) <= 2 * LONGEST else "." * (LONGEST + 1)


def _number(value: Any) -> str:
    array = np.asarray(value)
    return f"{array.item():g}" if array.size == 1 and array.dtype.kind == "f" else str(value)
