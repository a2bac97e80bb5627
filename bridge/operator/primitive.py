"""Defines the JAX primitive of operators, which carries a call until its platform is known, and runs rules for it.

The types of a rule's results follow from the call, but a rule computes them as it likes. On a mesh with explicit axes,
JAX also refuses computations for which it cannot tell how their results are split, such as products that sum over a
dimension that is split.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
from jax.interpreters import mlir
from jax.sharding import AxisType

from bridge.compat.jax import is_exported, of_one_platform
from bridge.ffi.mesh.division import axes_of, axes_of_type, with_sharding
from bridge.ffi.primitive import CallPrimitive, result_avals
from bridge.operator.author_functions import flat_results, run_rule, selected_kernel
from bridge.operator.operator_call import OperatorCall

PLATFORMS = ("cpu", "cuda", "rocm", "tpu")
"""Every platform that a program may be lowered for; on one without kernels, lowering raises a BackendError."""

Axes = Sequence[int | None]


def _lower(ctx: mlir.LoweringRuleContext, *operands: Any, call: OperatorCall, platform: str, spread: bool) -> Any:
    ctx = of_one_platform(ctx, platform)
    split = OPERATOR.split_over_devices(ctx, call, spread)
    function, context = split or (selected_kernel(call, platform, is_exported(ctx)), ctx)
    return mlir.lower_fun(function, multiple_results=True)(context, *operands)


def _batch(args: Sequence[Any], axes: Axes, *, call: OperatorCall) -> tuple[list[Any], list[int]]:
    """The batching rule: the author's rule, or a call of the kernel on the batch, which becomes the first axis."""
    extent = next(arg.shape[axis] for arg, axis in zip(args, axes, strict=True) if axis is not None)
    in_front, rule = [0] * len(call.outputs), call.rules.batching
    if rule is None:
        return OPERATOR.bind(replace(call, batches=(*call.batches, (extent, tuple(axes)))), *args), in_front
    leading = [arg if axis is None else jnp.moveaxis(arg, axis, 0) for arg, axis in zip(args, axes, strict=True)]
    is_batched = tuple(axis is not None for axis in axes)
    outputs = tuple(jax.ShapeDtypeStruct((extent, *spec.shape), spec.dtype) for spec in call.outputs)

    def run(*arrays: Any) -> list[Any]:
        results = run_rule(call, "the batching rule", rule, extent, is_batched, *arrays)
        return flat_results(replace(call, outputs=outputs), results, "the batching rule")

    batched = replace(call, batches=(*call.batches, (extent, tuple(0 if each else None for each in is_batched))))
    types = result_avals(batched, [jax.typeof(array) for array in leading])
    return run_typed(run, leading, types), in_front


OPERATOR = CallPrimitive("xla_custom_kernel", _lower, _batch, PLATFORMS)
"""The primitive of a call of an operator."""


def run_typed(run: Callable[..., Sequence[Any]], args: Sequence[Any], types: Sequence[Any]) -> list[Any]:
    """The results of a rule, split as their types say. If JAX cannot tell how to split a computation, XLA decides.

    Args:
        run: The rule, a function that returns a sequence of arrays. In it, None stands for zeros.
        args: Its arguments, pytrees of arrays.
        types: The abstract value of each result.
    """
    shardings = [each.sharding for each in types]
    if not any(axes_of_type(each.mesh, AxisType.Explicit) for each in shardings):
        return list(run(*args))

    def instantiated(*args: Any) -> list[Any]:
        return [
            jnp.zeros(each.shape, each.dtype) if result is None else result
            for result, each in zip(run(*args), types, strict=True)
        ]

    function = jax.sharding.auto_axes(instantiated, out_sharding=shardings) if _is_refused(run, args) else run
    results = function(*args)
    return [r if r is None else with_sharding(r, own) for r, own in zip(results, shardings, strict=True)]


def _is_refused(run: Callable[..., Any], args: Sequence[Any]) -> bool:
    try:
        jax.eval_shape(run, *args)
    except Exception as error:
        if type(error).__name__ == "ShardingTypeError":  # JAX does not export it
            return True
        raise
    return False


def with_split_batches(array: Any, sharding: Any, dimensions: Sequence[int]) -> Any:
    """The array, split along its batch dimensions as in a sharding."""
    own = jax.typeof(array).sharding.spec
    same = all(axes_of(own[dimension]) == axes_of(sharding.spec[dimension]) for dimension in dimensions)
    return array if same else with_sharding(array, sharding)
