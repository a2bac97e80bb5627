"""Splits operators on sharded arrays under plain ``jax.jit``, so that each device runs the kernel on its part."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import jax
from jax.experimental.custom_partitioning import custom_partitioning
from jax.extend.core import Primitive
from jax.sharding import NamedSharding, PartitionSpec

from bridge.errors import AbiError, SignatureError
from bridge.operator.call.operator_call import Function, OperatorCall
from bridge.operator.rules.selected_kernel import selected_kernel

Names = tuple[str, ...]


def partitioned(call: OperatorCall, platform: str, args: Sequence[Any]) -> Function:
    """The kernel of a call as a function that XLA's partitioner splits along the dimensions that permit it.

    Args:
        call: A call of an operator that has declared its dimensions.
        platform: The platform it runs on.
        args: Anything with the shape of each argument, batch dimensions included.

    Raises:
        SignatureError: The declared dimensions do not fit the arguments or results.
    """
    dimensions = call.rules.dimensions
    assert dimensions is not None
    _check(call, "operands", dimensions.operands, [len(arg.shape) for arg in args], batched=True)
    _check(call, "results", dimensions.results, [len(spec.shape) for spec in call.outputs], batched=False)
    operands, results = _with_batches(call, dimensions.operands, dimensions.results)
    batches = {name for name in results[0] if name not in dimensions.results[0]}
    split = dimensions.split | batches
    others = sorted({name for names in (*operands, *results) for name in names} - split)

    @custom_partitioning
    def run(*arrays: Any) -> list[Any]:
        return selected_kernel(call, platform)(*arrays)

    def partition(mesh: Any, arg_shapes: Any, result_shapes: Any) -> Any:
        # The first result decides how dimensions are split. The sharding rule makes all other arrays agree with it.
        spec = result_shapes[0].sharding.spec
        axes = dict(zip(results[0], (*spec, *[None] * (len(results[0]) - len(spec))), strict=True))
        axes = {name: axis if name in split else None for name, axis in axes.items()}

        def sharding(names: Names) -> NamedSharding:
            return NamedSharding(mesh, PartitionSpec(*[axes.get(name) for name in names]))

        extents = {
            name: extent
            for names, shape in zip(results, result_shapes, strict=True)
            for name, extent in zip(names, sharding(names).shard_shape(shape.shape), strict=True)
        }
        local = replace(
            call,
            outputs=tuple(
                jax.ShapeDtypeStruct(tuple(extents[name] for name in names), spec.dtype)
                for names, spec in zip(dimensions.results, call.outputs, strict=True)
            ),
            batches=tuple(
                (extents[name], axes_) for name, (_, axes_) in zip(_batch_names(call), call.batches, strict=True)
            ),
        )

        def run_part(*arrays: Any) -> list[Any]:
            return selected_kernel(local, platform)(*arrays)

        return mesh, run_part, [sharding(names) for names in results], tuple(sharding(names) for names in operands)

    run.def_partition(
        partition,
        sharding_rule=f"{_written(operands)} -> {_written(results)}",
        need_replication_factors=tuple(others),
    )
    function: Function = run
    return function


def require_devices(primitive: Primitive) -> None:
    """Makes JAX tell the lowering rule of a primitive for which devices it lowers.

    JAX has no public function for that, so this adds the primitive to a private set.

    Raises:
        AbiError: This version of JAX has no such set.
    """
    try:
        from jax._src.dispatch import prim_requires_devices_during_lowering as primitives
    except ImportError as error:
        raise AbiError(
            f"bridge does not understand how jax {jax.__version__} partitions operations ({error}). Install a version "
            "of jax that this release of kernel-bridge supports."
        ) from error
    primitives.add(primitive)


def _check(call: OperatorCall, what: str, names: Sequence[Names], ranks: Sequence[int], batched: bool) -> None:
    if batched:
        ranks = [rank - sum(axes[index] is not None for _, axes in call.batches) for index, rank in enumerate(ranks)]
    if [len(each) for each in names] != list(ranks):
        raise SignatureError(
            f"{call.name}: its {what} have {list(ranks)} dimensions, but def_partitioning declares "
            f"{_written(names)!r}. Declare one name for each dimension."
        )


def _batch_names(call: OperatorCall) -> list[str]:
    return [f"batch{index}" for index in range(len(call.batches))]


def _with_batches(
    call: OperatorCall, operands: Sequence[Names], results: Sequence[Names]
) -> tuple[list[Names], list[Names]]:
    """The names of the dimensions that operands and results have under ``vmap``."""
    inner, outer = [list(names) for names in operands], [list(names) for names in results]
    for name, (_, axes) in zip(_batch_names(call), call.batches, strict=True):
        for names, axis in zip(inner, axes, strict=True):
            if axis is not None:
                names.insert(axis, name)
        for names in outer:
            names.insert(0, name)
    return [tuple(names) for names in inner], [tuple(names) for names in outer]


def _written(arrays: Sequence[Names]) -> str:
    return ", ".join(" ".join(names) for names in arrays)
