"""Runs the rules of an operator's author on arrays whose types say how they are split over devices.

The types of a rule's results follow from the call, but a rule computes them as it likes. On a mesh with explicit axes,
JAX also refuses computations for which it cannot tell how their results are split, such as products that sum over a
dimension that is split.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp

from bridge.ffi.mesh.division import axes_of
from bridge.ffi.mesh.explicit import is_explicit, with_sharding


def run_typed(run: Callable[..., Sequence[Any]], args: Sequence[Any], types: Sequence[Any]) -> list[Any]:
    """The results of a rule, split as their types say. If JAX cannot tell how to split a computation, XLA decides.

    Args:
        run: The rule, a function that returns a sequence of arrays. In it, None stands for zeros.
        args: Its arguments, pytrees of arrays.
        types: The abstract value of each result.
    """
    shardings = [each.sharding for each in types]
    if not any(map(is_explicit, shardings)):
        return list(run(*args))
    results = (_automatic(run, types) if _is_refused(run, args) else run)(*args)
    return [r if r is None else with_sharding(r, own) for r, own in zip(results, shardings, strict=True)]


def _is_refused(run: Callable[..., Any], args: Sequence[Any]) -> bool:
    try:
        jax.eval_shape(run, *args)
    except Exception as error:
        if type(error).__name__ == "ShardingTypeError":  # JAX does not export it
            return True
        raise
    return False


def _automatic(run: Callable[..., Sequence[Any]], types: Sequence[Any]) -> Callable[..., Any]:
    def instantiated(*args: Any) -> list[Any]:
        return [
            jnp.zeros(each.shape, each.dtype) if result is None else result
            for result, each in zip(run(*args), types, strict=True)
        ]

    function: Callable[..., Any] = jax.sharding.auto_axes(instantiated, out_sharding=[each.sharding for each in types])
    return function


def with_split_batches(array: Any, sharding: Any, dimensions: Sequence[int]) -> Any:
    """The array, split along its batch dimensions as in a sharding."""
    own = jax.typeof(array).sharding.spec
    same = all(axes_of(own[dimension]) == axes_of(sharding.spec[dimension]) for dimension in dimensions)
    return array if same else with_sharding(array, sharding)
