"""Lowers a call of an operator for one platform, which selects its kernel."""

from __future__ import annotations

import functools
from typing import Any

from jax.interpreters import mlir

from bridge.ffi.mesh.automatic import partitioned, partitioned_context
from bridge.ffi.mesh.division import Parts, split_of
from bridge.ffi.mesh.explicit import run_split
from bridge.operator.call.operator_call import Function, OperatorCall
from bridge.operator.rules.partition import division_of, part_of
from bridge.operator.rules.primitive import bind, operator_p
from bridge.operator.rules.selected_kernel import selected_kernel

PLATFORMS = ("cpu", "cuda", "rocm", "tpu")
"""Every platform that a program may be lowered for; on one without kernels, lowering raises a BackendError."""


def lower(ctx: mlir.LoweringRuleContext, *operands: Any, call: OperatorCall, platform: str) -> Any:
    """The lowering rule of the primitive on one platform."""
    function, context = _function(_of_one_platform(ctx, platform), call, platform)
    return mlir.lower_fun(function, multiple_results=True)(context, *operands)


def _function(
    ctx: mlir.LoweringRuleContext, call: OperatorCall, platform: str
) -> tuple[Function, mlir.LoweringRuleContext]:
    division = division_of(call, ctx.avals_in)
    split = split_of(division, ctx.avals_in)

    def part(parts: Parts) -> Function:
        return functools.partial(bind, part_of(call, ctx.avals_in, parts))

    if split is not None:
        return run_split(split, division, part), ctx
    if call.checks is not None:
        # Not partitioned: JAX frees the callbacks of a part once the part is lowered, but XLA calls them later.
        return call.checks.around(call, platform, ctx.module_context.lowering_parameters.for_export), ctx
    # The kernels that are called in an operator with side effects are on their own.
    partitioner = partitioned_context(ctx, division) if division.splittable and not call.has_side_effect else None
    if partitioner is not None:
        return partitioned(division, part, ctx.avals_in), partitioner
    return selected_kernel(call, platform), ctx


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
