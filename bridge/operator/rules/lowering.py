"""Lowers a call of an operator for one platform, which selects its kernel."""

from __future__ import annotations

from typing import Any

from jax.interpreters import mlir

from bridge.operator.call.operator_call import Function, OperatorCall
from bridge.operator.rules.partition import partitioned
from bridge.operator.rules.primitive import operator_p
from bridge.operator.rules.selected_kernel import selected_kernel

PLATFORMS = ("cpu", "cuda", "rocm", "tpu")
"""Every platform that a program may be lowered for; on one without kernels, lowering raises a BackendError."""


def lower(ctx: mlir.LoweringRuleContext, *operands: Any, call: OperatorCall, platform: str) -> Any:
    """The lowering rule of the primitive on one platform."""
    kernel = _function(ctx, call, platform)
    return mlir.lower_fun(kernel, multiple_results=True)(_of_one_platform(ctx, platform), *operands)


def _function(ctx: mlir.LoweringRuleContext, call: OperatorCall, platform: str) -> Function:
    exported = ctx.module_context.lowering_parameters.for_export
    if call.checks is not None:
        # Not partitioned: JAX frees the callbacks of a part once the part is lowered, but XLA calls them later.
        return call.checks.around(call, platform, exported)
    # An exported program holds no Python function that a partitioner could call. Under shard_map, where the context has
    # no number of devices, the operands are the part of one device already.
    spread = getattr(ctx.module_context.axis_context, "num_devices", 1) > 1
    if call.rules.dimensions is not None and spread and not exported:
        return partitioned(call, platform, ctx.avals_in)
    return selected_kernel(call, platform)


def _of_one_platform(ctx: mlir.LoweringRuleContext, platform: str) -> mlir.LoweringRuleContext:
    """A context that does not share the code of ``jax.jit`` functions with other platforms of the same program.

    JAX lowers equal ``jax.jit`` functions of a program once, even if the program is for several platforms. The kernel
    of the first platform would run on all of them.
    """
    shared = ctx.module_context
    if len(shared.platforms) == 1:
        return ctx
    own = shared.cached_primitive_lowerings.setdefault((operator_p, platform), {})
    apart: mlir.LoweringRuleContext = ctx.replace(module_context=shared.replace(cached_primitive_lowerings=own))
    return apart
