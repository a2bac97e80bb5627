"""Follows a JAX function operation by operation, to see what its kernels take and whether their results are used."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
from jax.extend.core import ClosedJaxpr, Jaxpr, Literal

KERNEL_CALLS = ("kernel_call", "partitioned_kernel_call")
"""The primitives of the bridge that call a kernel."""

Seen = Callable[[list[Any], list[Any]], list[Any]]
"""Takes the operands and the results of a call of a kernel, and returns the results to go on with."""


def followed(function: Callable[..., Any], arguments: Sequence[Any], seen: Seen) -> list[Any]:
    """Evaluates a function, and hands every call of a kernel to ``seen``.

    Calls in loops and branches are evaluated, but not seen.

    Args:
        function: A function of arrays.
        arguments: Its arguments.
        seen: Takes each call of a kernel.
    """
    traced = jax.make_jaxpr(function)(*arguments)
    return _evaluated(traced.jaxpr, traced.consts, list(arguments), seen)


def _evaluated(jaxpr: Jaxpr, consts: Sequence[Any], arguments: Sequence[Any], seen: Seen) -> list[Any]:
    values: dict[Any, Any] = dict(zip(jaxpr.constvars, consts, strict=True))
    values |= dict(zip(jaxpr.invars, arguments, strict=True))

    def read(atom: Any) -> Any:
        return atom.val if isinstance(atom, Literal) else values[atom]

    for equation in jaxpr.eqns:
        operands = [read(atom) for atom in equation.invars]
        inner = _inner(equation)
        if inner is not None:
            results = _evaluated(inner.jaxpr, inner.consts, operands, seen)
        else:
            bound = equation.primitive.get_bind_params(equation.params)
            functions, parameters = bound if isinstance(bound, tuple) else ((), bound)  # older versions of JAX
            found = equation.primitive.bind(*functions, *operands, **parameters)
            results = list(found) if equation.primitive.multiple_results else [found]
            if equation.primitive.name in KERNEL_CALLS:
                results = seen(operands, results)
        values |= dict(zip(equation.outvars, results, strict=True))
    return [read(atom) for atom in jaxpr.outvars]


def _inner(equation: Any) -> ClosedJaxpr | None:
    """The function that an equation calls once with its own operands; None for every other equation."""
    if equation.primitive.name not in ("jit", "pjit", "closed_call", "custom_jvp_call", "custom_vjp_call",
                                       "custom_vmap_call", "remat2", "checkpoint"):  # fmt: skip
        return None
    held = [equation.params.get(name) for name in ("jaxpr", "call_jaxpr", "call", "fun_jaxpr")]
    return next((each for each in held if isinstance(each, ClosedJaxpr)), None)
