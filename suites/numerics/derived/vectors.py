"""Tells which references are elementwise."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from suites.numerics.arrays import Inputs
from suites.numerics.derived.rules import RULES
from suites.numerics.jaxpr import CALLS, MOVES, equations, jaxpr_of, jaxprs


def is_elementwise(reference: Callable[..., Any], inputs: Inputs) -> bool:
    """Tells whether element i of each result depends only on element i of vectors of one length, and on numbers."""
    shapes = {array.shape for array in inputs if array.size != 1}
    try:
        closed = jaxpr_of(reference, inputs)
    except Exception:  # from the reference
        return False
    if len(shapes) != 1 or len(min(shapes)) != 1 or any(out.shape not in shapes for out in closed.out_avals):
        return False
    for equation in equations(closed.jaxpr):
        inner = jaxprs(equation.params.values())
        if equation.primitive.name not in (CALLS if inner else MOVES | RULES.keys()):
            return False
        arrays = [atom.aval for atom in (*equation.invars, *equation.outvars)]
        constants = [array for each in (closed, *inner) for array in getattr(each, "consts", ())]
        if any(array.shape not in shapes and array.size != 1 for array in arrays) or any(map(np.ndim, constants)):
            return False
    return True
