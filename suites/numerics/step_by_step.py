"""Runs a reference operation by operation, rounding and overflowing after each, as a plain kernel does.

XLA simplifies whole programs: it returns ``|x|`` for ``sqrt(x * x)``, which overflows in a kernel for large x. Barriers
between the operations keep it from that. Where languages differ, as in a division of integers by zero, the result here
is one that no language gives.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend import core

_SUMS = {
    *("reduce_sum", "dot_general", "cumsum", "scatter-add", "scatter_add", "reduce_window_sum"),
    "conv_general_dilated",
}
"""Primitives that add up terms in an order that they leave open."""

_OTHER_BITS = 0x55
"""The bits that an undefined integer is changed in."""

_CALLS = {"jit", "pjit", "closed_call", "custom_jvp_call", "custom_vjp_call", "checkpoint", "remat2"}


def step_by_step(reference: Callable[..., Any]) -> Callable[..., list[jax.Array]]:
    """Returns a compiled function of arrays that gives the results of a reference as a list.

    A sum is NaN where some order of its terms overflows. What depends on an integer that each language defines in its
    own way differs from the reference: a quotient by zero, a shift by too many bits, a float beyond the integers.
    """

    @jax.jit
    def stepped(*inputs: jax.Array) -> list[jax.Array]:
        closed = jax.make_jaxpr(lambda *arrays: jax.tree.leaves(reference(*arrays)))(*inputs)
        return _evaluated(closed.jaxpr, closed.consts, inputs)

    return stepped


def _evaluated(jaxpr: Any, consts: Sequence[Any], inputs: Sequence[Any]) -> list[Any]:
    known: dict[Any, Any] = dict(zip(jaxpr.constvars, consts, strict=True))
    known |= dict(zip(jaxpr.invars, inputs, strict=True))

    def read(atom: Any) -> Any:
        return atom.val if isinstance(atom, core.Literal) else known[atom]

    for equation in jaxpr.eqns:
        operands = [read(atom) for atom in equation.invars]
        results = _applied(equation, operands)
        if any(jnp.issubdtype(variable.aval.dtype, jnp.inexact) for variable in equation.outvars):
            results = list(jax.lax.optimization_barrier(tuple(results)))
        known.update(zip(equation.outvars, results, strict=True))
    return [read(atom) for atom in jaxpr.outvars]


def _applied(equation: Any, operands: Sequence[Any]) -> list[Any]:
    primitive, params = equation.primitive, equation.params
    if primitive.name in _CALLS:
        inner = next(params[key] for key in ("jaxpr", "call_jaxpr") if key in params)
        return _evaluated(getattr(inner, "jaxpr", inner), getattr(inner, "consts", ()), operands)
    found = primitive.get_bind_params(params)  # older releases of JAX also return functions
    functions, bound = found if isinstance(found, tuple) else ((), found)

    def bind(values: Sequence[Any]) -> list[Any]:
        found = primitive.bind(*functions, *values, **bound)
        return list(found) if primitive.multiple_results else [found]

    results = bind(operands)
    if primitive.name in _SUMS and jnp.issubdtype(results[0].dtype, jnp.floating):
        (reach,) = bind([_magnitude(operand) for operand in operands])
        results = [jnp.where(jnp.isinf(reach), jnp.nan, results[0]).astype(results[0].dtype)]
    undefined = _undefined(primitive.name, operands, results[0])
    if undefined is not None:
        results = [jnp.where(undefined, results[0] ^ _OTHER_BITS, results[0])]
    return results


def _undefined(name: str, operands: Sequence[Any], result: Any) -> Any:
    """True where languages give an integer result differently; None for an operation that all define alike."""
    if not jnp.issubdtype(result.dtype, jnp.integer):
        return None
    info = np.iinfo(result.dtype)
    if name in ("div", "rem"):
        x, y = operands
        undefined = y == 0
        return undefined | ((x == info.min) & (y == -1)) if info.min else undefined
    if name in ("shift_left", "shift_right_logical", "shift_right_arithmetic"):
        return (operands[1] < 0) | (operands[1] >= info.bits)
    if name == "convert_element_type" and jnp.issubdtype(operands[0].dtype, jnp.floating):
        x = operands[0].astype(jnp.result_type(float))
        return ~((x > float(info.min) - 1) & (x < float(info.max)))
    return None


def _magnitude(operand: Any) -> Any:
    """The absolute values of floats, with zeros for those that are not finite."""
    if not jnp.issubdtype(jnp.result_type(operand), jnp.floating):
        return operand
    return jnp.where(jnp.isfinite(operand), jnp.abs(operand), 0)
