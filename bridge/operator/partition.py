"""Splits calls of an operator over the devices of a mesh: names the dimensions, and splits the results of rules alike.

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

from bridge.errors import SignatureError
from bridge.ffi.mesh.division import Division, Name, Names, Parts, axes_of
from bridge.ffi.mesh.explicit import is_explicit, with_sharding
from bridge.operator.operator_call import OperatorCall


def division_of(call: OperatorCall, args: Sequence[Any]) -> Division:
    """The dimensions of a call: it can be split along its batches, and where its author has declared it.

    Args:
        call: A call of an operator.
        args: Anything with the shape of each argument, batch dimensions included.

    Raises:
        SignatureError: The declared dimensions do not fit the arguments or results.
    """
    operands, results, splittable = _own_names(call, args)
    for name, (_, axes) in zip(batch_names(call), call.batches, strict=True):
        operands = tuple(
            names if axis is None else (*names[:axis], name, *names[axis:])
            for names, axis in zip(operands, axes, strict=True)
        )
        results = tuple((name, *names) for names in results)
    return Division(call.name, operands, results, splittable.union(batch_names(call)))


def part_of(call: OperatorCall, args: Sequence[Any], parts: Parts) -> OperatorCall:
    """The call on a part of its arguments.

    Args:
        call: A call of an operator.
        args: Anything with the shape of each argument of the whole call.
        parts: The number of parts of each dimension.
    """
    results = _own_names(call, args)[1]
    outputs = tuple(
        jax.ShapeDtypeStruct(_shares(names, spec.shape, parts), spec.dtype)
        for names, spec in zip(results, call.outputs, strict=True)
    )
    extents = _shares(batch_names(call), [extent for extent, _ in call.batches], parts)
    batches = tuple((extent, axes) for extent, (_, axes) in zip(extents, call.batches, strict=True))
    return replace(call, outputs=outputs, batches=batches)


def _shares(names: Sequence[Name], shape: Sequence[int], parts: Parts) -> tuple[int, ...]:
    return tuple(extent // parts.get(name, 1) for name, extent in zip(names, shape, strict=True))


def _own_names(call: OperatorCall, args: Sequence[Any]) -> tuple[tuple[Names, ...], tuple[Names, ...], frozenset[Name]]:
    """The names of the dimensions of operands and results without batches, and of those that may be split."""
    batched = [sum(axes[index] is not None for _, axes in call.batches) for index in range(len(args))]
    operands = [len(arg.shape) - batches for arg, batches in zip(args, batched, strict=True)]
    results = [len(spec.shape) for spec in call.outputs]
    declared = call.rules.dimensions
    if declared is None:
        return _unique("operand", operands), _unique("result", results), frozenset()
    for what, names, ranks in (("operands", declared.operands, operands), ("results", declared.results, results)):
        if [len(each) for each in names] != ranks:
            written = ", ".join(" ".join(each) for each in names)
            raise SignatureError(
                f"{call.name}: its {what} have {ranks} dimensions, but def_partitioning declares {written!r}. Declare "
                "one name for each dimension."
            )
    return declared.operands, declared.results, frozenset(declared.split)


def _unique(which: str, ranks: Sequence[int]) -> tuple[Names, ...]:
    return tuple(tuple((which, array, dimension) for dimension in range(rank)) for array, rank in enumerate(ranks))


def batch_names(call: OperatorCall) -> tuple[Name, ...]:
    """The names of the dimensions of the batches of a call, in its order."""
    return tuple(range(len(call.batches)))  # authors name dimensions with strings


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
