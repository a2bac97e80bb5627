"""Runs a reference with other integers wherever languages differ, such as in a division by zero.

A result that changes depends on one of them, so that no language gives the right one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend import core

from suites.numerics.arrays import Inputs
from suites.numerics.traced import operations

_OTHER_BITS = 0x55
"""The bits that an undefined integer is changed in."""

_SHIFTS = ("shift_left", "shift_right_logical", "shift_right_arithmetic")
_UNDEFINED = {"div", "rem", "convert_element_type", *_SHIFTS}
_CALLS = {"jit", "pjit", "closed_call", "custom_jvp_call", "custom_vjp_call", "checkpoint", "remat2"}


def may_be_undefined(reference: Callable[..., Any], inputs: Inputs) -> bool:
    """Tells whether a reference has an operation on integers that languages define in different ways."""
    return not _UNDEFINED.isdisjoint(operations(reference, inputs))


def with_other_integers(reference: Callable[..., Any]) -> Callable[..., list[jax.Array]]:
    """Returns a compiled function of arrays that gives the results of a reference as a list.

    What depends on an integer that each language defines in its own way differs from the reference: a quotient by
    zero, a shift by too many bits, a float beyond the integers.
    """

    @jax.jit
    def changed(*inputs: jax.Array) -> list[jax.Array]:
        closed = jax.make_jaxpr(lambda *arrays: jax.tree.leaves(reference(*arrays)))(*inputs)
        return _evaluated(closed.jaxpr, closed.consts, inputs)

    return changed


def _evaluated(jaxpr: Any, consts: Sequence[Any], inputs: Sequence[Any]) -> list[Any]:
    known: dict[Any, Any] = dict(zip([*jaxpr.constvars, *jaxpr.invars], [*consts, *inputs], strict=True))

    def read(atom: Any) -> Any:
        return atom.val if isinstance(atom, core.Literal) else known[atom]

    for equation in jaxpr.eqns:
        results = _applied(equation, [read(atom) for atom in equation.invars])
        known.update(zip(equation.outvars, results, strict=True))
    return [read(atom) for atom in jaxpr.outvars]


def _applied(equation: Any, operands: Sequence[Any]) -> list[Any]:
    primitive, params = equation.primitive, equation.params
    if primitive.name in _CALLS:
        inner = next(params[key] for key in ("jaxpr", "call_jaxpr") if key in params)
        return _evaluated(getattr(inner, "jaxpr", inner), getattr(inner, "consts", ()), operands)
    found = primitive.get_bind_params(params)  # older releases of JAX also return functions
    functions, bound = found if isinstance(found, tuple) else ((), found)
    result = primitive.bind(*functions, *operands, **bound)
    if primitive.multiple_results:
        return list(result)
    undefined = _undefined(primitive.name, operands, result)
    return [result if undefined is None else jnp.where(undefined, result ^ _OTHER_BITS, result)]


def _undefined(name: str, operands: Sequence[Any], result: Any) -> Any:
    """True where languages give an integer result differently; None for an operation that all define alike."""
    if not jnp.issubdtype(result.dtype, jnp.integer):
        return None
    info = np.iinfo(result.dtype)
    if name in ("div", "rem"):
        x, y = operands
        undefined = y == 0
        return undefined | ((x == info.min) & (y == -1)) if info.min else undefined
    if name in _SHIFTS:
        return (operands[1] < 0) | (operands[1] >= info.bits)
    if name == "convert_element_type" and jnp.issubdtype(operands[0].dtype, jnp.floating):
        x = operands[0].astype(jnp.result_type(float))
        return ~((x > float(info.min) - 1) & (x < float(info.max)))
    return None
