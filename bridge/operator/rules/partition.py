"""Names the dimensions of a call of an operator, and makes the call on a part of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import jax

from bridge.errors import SignatureError
from bridge.ffi.mesh.division import Division, Name, Names, Parts
from bridge.operator.call.operator_call import OperatorCall


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
    _check(call, "operands", declared.operands, operands)
    _check(call, "results", declared.results, results)
    return declared.operands, declared.results, frozenset(declared.split)


def _unique(which: str, ranks: Sequence[int]) -> tuple[Names, ...]:
    return tuple(tuple((which, array, dimension) for dimension in range(rank)) for array, rank in enumerate(ranks))


def batch_names(call: OperatorCall) -> tuple[Name, ...]:
    """The names of the dimensions of the batches of a call, in its order."""
    return tuple(range(len(call.batches)))  # authors name dimensions with strings


def _check(call: OperatorCall, what: str, names: Sequence[tuple[str, ...]], ranks: Sequence[int]) -> None:
    if [len(each) for each in names] != ranks:
        written = ", ".join(" ".join(each) for each in names)
        raise SignatureError(
            f"{call.name}: its {what} have {ranks} dimensions, but def_partitioning declares {written!r}. Declare one "
            "name for each dimension."
        )
