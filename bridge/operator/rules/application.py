"""Applies operators to arrays, with all of JAX's rules; registers these rules for the primitives of operators."""

from __future__ import annotations

import functools
from typing import Any

import jax
from jax.interpreters import ad, batching, mlir

from bridge.ffi.avals import align_varying
from bridge.operator.call.operator_call import OperatorCall
from bridge.operator.rules.batching import batch
from bridge.operator.rules.derivatives import differentiable, jvp, transpose
from bridge.operator.rules.lowering import PLATFORMS, lower
from bridge.operator.rules.primitive import PRIMITIVES


def run(call: OperatorCall, *args: Any) -> list[Any]:
    """Runs an operator in a function that JAX traces."""
    # Align outside of the function that has the derivative, so that gradients are summed over the mesh where needed.
    results: list[Any] = differentiable(call)(*align_varying(args))
    return results


@functools.partial(jax.jit, static_argnums=0, inline=True)
def apply(call: OperatorCall, *args: Any) -> list[Any]:
    """Runs an operator, also outside of ``jax.jit``; compiles once for each call and types of the arguments."""
    return run(call, *args)


for _primitive in PRIMITIVES:
    batching.primitive_batchers[_primitive] = batch
    ad.primitive_jvps[_primitive] = jvp
    ad.primitive_transposes[_primitive] = transpose
    for _platform in PLATFORMS:
        mlir.register_lowering(_primitive, functools.partial(lower, platform=_platform), platform=_platform)
