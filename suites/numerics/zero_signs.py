"""Tells from a reference whether the signs of its zeros are those that every kernel must give.

IEEE 754 defines the sign of a zero that negation, a product, a quotient or a copy gives. It leaves open which zero is
larger, so that a maximum of both, or what comes after a comparison, may have either sign. The sign of a sum depends on
the order of its terms: ``-(y - x)`` is -0.0 where ``x - y`` is 0.0. So it counts for a single sum of two inputs alone.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax

from suites.numerics.arrays import Inputs, specs
from suites.numerics.precision import precision

_DEFINED = {
    *("neg", "mul", "div", "copy", "copy_p", "convert_element_type", "stop_gradient"),
    *("reshape", "transpose", "rev", "squeeze", "expand_dims", "broadcast_in_dim", "concatenate", "slice"),
}
"""Primitives that define the sign of a zero."""

_CALLS = {"jit", "pjit", "closed_call", "custom_jvp_call", "custom_vjp_call"}


def keeps_zero_signs(reference: Callable[..., Any], inputs: Inputs) -> bool:
    """Returns whether all operations of a reference define the signs of zeros."""
    return _keeps(reference, specs(inputs))


@functools.lru_cache(maxsize=64)
def _keeps(reference: Callable[..., Any], inputs: tuple[jax.ShapeDtypeStruct, ...]) -> bool:
    try:
        with precision(*(each.dtype for each in inputs)):
            jaxpr = jax.make_jaxpr(lambda *arrays: reference(*arrays))(*inputs).jaxpr
            return [equation.primitive.name for equation in jaxpr.eqns] == ["add"] or _all_defined(jaxpr)
    except Exception:  # a reference that cannot be traced
        return False


def _all_defined(jaxpr: Any) -> bool:
    for equation in jaxpr.eqns:
        name = equation.primitive.name
        if name in _CALLS:
            inner = next(equation.params[key] for key in ("jaxpr", "call_jaxpr") if key in equation.params)
            if not _all_defined(getattr(inner, "jaxpr", inner)):
                return False
        elif name not in _DEFINED:
            return False
    return True
