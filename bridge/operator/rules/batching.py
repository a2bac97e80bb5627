"""Batches a call of an operator under ``jax.vmap``: with the author's rule, or by running the kernel on the batch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp

from bridge.operator.call.author_functions import flat_results, run_rule
from bridge.operator.call.declared import Rule
from bridge.operator.call.operator_call import OperatorCall
from bridge.operator.rules.primitive import bind, result_avals
from bridge.operator.rules.typed_rules import run_typed

Axes = Sequence[int | None]


def batch(args: Sequence[Any], axes: Axes, *, call: OperatorCall) -> tuple[list[Any], list[int]]:
    """The batching rule of the primitive; all results have the batch as their first axis."""
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
