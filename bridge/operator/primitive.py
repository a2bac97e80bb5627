"""Defines the JAX primitives of operators, which carry a call until its platform is known."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
from jax.extend.core import Primitive
from jax.interpreters import batching, mlir

from bridge.compat.jax import is_exported, of_one_platform, require_devices, side_effect
from bridge.ffi.avals import align_varying, result_aval
from bridge.ffi.kernel_call import evaluation
from bridge.ffi.mesh.automatic import may_be_partitioned, partitioned, partitioned_context
from bridge.ffi.mesh.division import Parts, split_of
from bridge.ffi.mesh.explicit import run_split
from bridge.operator.author_functions import flat_results, run_rule
from bridge.operator.operator_call import Function, OperatorCall, Rule
from bridge.operator.partition import division_of, part_of, run_typed
from bridge.operator.selected_kernel import selected_kernel

PLATFORMS = ("cpu", "cuda", "rocm", "tpu")
"""Every platform that a program may be lowered for; on one without kernels, lowering raises a BackendError."""

Axes = Sequence[int | None]


def bind(call: OperatorCall, *args: Any) -> list[Any]:
    """Calls an operator on arrays or tracers; returns a flat list of results."""
    args = align_varying(args)
    spread = may_be_partitioned([jax.typeof(arg) for arg in args])
    results: list[Any] = (partitioned_operator_p if spread else operator_p).bind(*args, call=call)
    return results


def result_avals(call: OperatorCall, avals: Sequence[Any]) -> list[jax.core.ShapedArray]:
    """The types of the results of a call on arrays of these types."""
    extents = tuple(extent for extent, _ in reversed(call.batches))
    division = division_of(call, avals)
    split = split_of(division, avals)
    return [
        result_aval(avals, extents + spec.shape, spec.dtype, split.sharding(names) if split else None)
        for spec, names in zip(call.outputs, division.results, strict=True)
    ]


def _abstract(*avals: Any, call: OperatorCall) -> tuple[list[Any], frozenset[Any]]:
    return result_avals(call, avals), frozenset([side_effect()] if call.has_side_effect else [])


def _lower(ctx: mlir.LoweringRuleContext, *operands: Any, call: OperatorCall, platform: str) -> Any:
    function, context = _function(of_one_platform(ctx, platform), call, platform)
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
    # The kernels that are called in an operator with side effects are on their own.
    if division.splittable and not call.has_side_effect:
        partitioner = partitioned_context(ctx, division)
        if partitioner is not None and not call.mode:
            return partitioned(division, part, ctx.avals_in), partitioner
        if partitioner is not None:  # not partitioned, see the checks in bridge.ffi.kernel_call
            division.warn_of_no_split("is checked by debug mode")
    return selected_kernel(call, platform, is_exported(ctx)), ctx


def _batch(args: Sequence[Any], axes: Axes, *, call: OperatorCall) -> tuple[list[Any], list[int]]:
    """The batching rule: the author's rule, or a call of the kernel on the batch, which becomes the first axis."""
    extent = next(arg.shape[axis] for arg, axis in zip(args, axes, strict=True) if axis is not None)
    if call.rules.batching is not None:
        return _by_rule(call.rules.batching, args, axes, extent, call), [0] * len(call.outputs)
    batched = replace(call, batches=(*call.batches, (extent, tuple(axes))))
    return bind(batched, *args), [0] * len(call.outputs)


def _by_rule(rule: Rule, args: Sequence[Any], axes: Axes, extent: int, call: OperatorCall) -> list[Any]:
    leading = [arg if axis is None else jnp.moveaxis(arg, axis, 0) for arg, axis in zip(args, axes, strict=True)]
    is_batched = tuple(axis is not None for axis in axes)
    outputs = tuple(jax.ShapeDtypeStruct((extent, *spec.shape), spec.dtype) for spec in call.outputs)

    def run(*arrays: Any) -> list[Any]:
        results = run_rule(call, "the batching rule", rule, extent, is_batched, *arrays)
        return flat_results(replace(call, outputs=outputs), results, "the batching rule")

    batched = replace(call, batches=(*call.batches, (extent, tuple(0 if each else None for each in is_batched))))
    types = result_avals(batched, [jax.typeof(array) for array in leading])
    return run_typed(run, leading, types)


def _primitive(name: str) -> Primitive:
    primitive = Primitive(name)
    primitive.multiple_results = True
    primitive.def_impl(evaluation(bind))
    primitive.def_effectful_abstract_eval(_abstract)
    batching.primitive_batchers[primitive] = _batch
    for platform in PLATFORMS:
        mlir.register_lowering(primitive, functools.partial(_lower, platform=platform), platform=platform)
    return primitive


operator_p = _primitive("xla_custom_kernel")
partitioned_operator_p = _primitive("partitioned_xla_custom_kernel")
"""The primitive of calls that XLA's partitioner may have to split. JAX lowers it for known devices only."""
require_devices(partitioned_operator_p)
