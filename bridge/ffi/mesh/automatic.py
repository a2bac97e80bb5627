"""Runs calls on meshes with automatic axes: XLA's partitioner decides how each call is split."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any

import jax
import numpy as np
from jax.experimental.custom_partitioning import custom_partitioning
from jax.interpreters import mlir
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec

from bridge.compat.jax import axis_context, is_exported, with_mesh
from bridge.ffi.mesh.division import Division, MeshAxes, Name, Names, Part, axes_of, axes_of_type, spec_of


def partitioned(division: Division, part: Part, own_mesh: Any) -> Callable[..., Any]:
    """A function of the whole arrays of a call that XLA's partitioner splits.

    It warns of each dimension that every device gathers.

    Args:
        division: The dimensions of the call.
        part: Makes the function that runs the call on one part.
        own_mesh: The mesh of the arguments.
    """

    @custom_partitioning
    def run(*arrays: Any) -> list[Any]:
        return part({})(*arrays)

    def partition(mesh: Any, arg_shapes: Any, result_shapes: Any) -> Any:
        if mesh.empty:
            mesh = _automatic_mesh(own_mesh, [*arg_shapes, *result_shapes])
        if mesh is None:
            return _whole(division, part, arg_shapes, result_shapes)
        # The first result decides how dimensions are split. The sharding rule makes all other arrays agree with it.
        # If a dimension cannot be split evenly, XLA would fill up the parts with elements of no meaning.
        first = result_shapes[0]
        axes: dict[Name, MeshAxes] = {
            name: own
            for name, extent, own in zip(division.results[0], first.shape, _split_axes(first, mesh), strict=True)
            if name in division.splittable and extent % _size(mesh, own) == 0
        }
        for operand, (names, array) in enumerate(zip(division.operands, arg_shapes, strict=True)):
            for dimension, (name, own) in enumerate(zip(names, _split_axes(array, mesh), strict=True)):
                if own and not axes.get(name):
                    division.warn_of_gather(operand, dimension, own)

        def sharding(names: Names) -> NamedSharding:
            return NamedSharding(mesh, spec_of(names, axes))

        parts = {name: _size(mesh, own) for name, own in axes.items()}
        return mesh, part(parts), [*map(sharding, division.results)], tuple(map(sharding, division.operands))

    run.def_partition(partition, sharding_rule=_rule(division))

    def function(*arrays: Any) -> Any:
        # JAX cannot read the sharding of a callback's result, which is on one device. The barrier ends it.
        return run(*jax.lax.optimization_barrier(arrays))

    return function


def _automatic_mesh(mesh: Any, arrays: Sequence[Any]) -> Mesh | None:
    """The part of a mesh that XLA's partitioner sees, if it has one axis. With more, their order would be unknown.

    JAX does not know the mesh of a part of a program that is under ``shard_map`` over some of the axes.
    """
    axes = automatic_axes(mesh)
    if len(axes) != 1:
        return None
    try:
        for array in arrays:
            array.sharding.shard_shape(array.shape)
    except ValueError:  # it is split unevenly
        return None
    return Mesh(np.array(_devices(arrays)[: mesh.shape[axes[0]]]), axes)


def _devices(arrays: Sequence[Any]) -> list[Any]:
    return sorted(arrays[0].sharding.device_set, key=lambda device: int(device.id))


def _whole(division: Division, part: Part, operands: Any, results: Any) -> Any:
    """The answer to the partitioner if the mesh is not known: each device runs the whole call."""
    for index, array in enumerate(operands):
        if not array.sharding.is_fully_replicated:
            division.warn_of_unknown_split(index)
    mesh = Mesh(np.array(_devices(results)), ("devices",))
    whole = NamedSharding(mesh, PartitionSpec())
    return mesh, part({}), [whole] * len(results), (whole,) * len(operands)


def _split_axes(array: Any, mesh: Mesh) -> list[MeshAxes]:
    """The mesh axes over which each dimension of an array is split."""
    if isinstance(array.sharding, NamedSharding):
        spec = array.sharding.spec
        return [*map(axes_of, spec), *[()] * (len(array.shape) - len(spec))]
    shape = array.sharding.shard_shape(array.shape)
    return [() if own == whole else tuple(mesh.axis_names) for own, whole in zip(shape, array.shape, strict=True)]


def _size(mesh: Any, axes: MeshAxes) -> int:
    return int(np.prod([mesh.shape[axis] for axis in axes], dtype=int))


def _rule(division: Division) -> str:
    """The dimensions of a call in JAX's notation for sharding rules.

    A dimension that cannot be split has another name in each array. XLA then splits no other array like it, and the
    partitioner gathers it only where it is split.
    """
    known: dict[Hashable, str] = {}

    def factor(array: tuple[str, int], dimension: int, name: Name) -> str:
        key = name if name in division.splittable else (array, dimension)
        return known.setdefault(key, f"d{len(known)}")

    def side(which: str, arrays: Sequence[Names]) -> str:
        written = [
            " ".join(factor((which, index), dimension, name) for dimension, name in enumerate(names))
            for index, names in enumerate(arrays)
        ]
        return ", ".join(written)

    return f"{side('operand', division.operands)} -> {side('result', division.results)}"


def automatic_axes(mesh: Any) -> MeshAxes:
    """The axes of a mesh over which XLA may split arrays."""
    return tuple(axis for axis in axes_of_type(mesh, AxisType.Auto) if mesh.shape[axis] > 1)


def partitioned_context(
    ctx: mlir.LoweringRuleContext, division: Division, mesh: Any
) -> mlir.LoweringRuleContext | None:
    """The context in which to lower a call that XLA's partitioner splits; None if the partitioner splits no call.

    Under ``shard_map``, the arrays are the parts of one device already, if it is over all axes of the mesh. An exported
    program can hold no Python function that the partitioner could call: there, this warns of calls that it could split.
    """
    if is_exported(ctx):
        if division.splittable and automatic_axes(mesh):
            division.warn_of_no_split("is exported")
        return None
    context = axis_context(ctx)
    manual = getattr(context, "manual_axes", None)
    devices = getattr(context, "device_assignment", None)
    if manual is not None:
        if set(manual) == set(context.mesh.axis_names):
            return None
    elif devices is None or len(devices) == 1:
        return None
    elif context.abstract_mesh is None and mesh.size == len(devices):
        return with_mesh(ctx, mesh)  # JAX knows the mesh of a program by its arguments and results only
    return with_mesh(ctx, None)
