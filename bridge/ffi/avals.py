"""Computes the abstract values of results: shape, dtype, sharding, and the mesh axes that a value varies over."""

from __future__ import annotations

from typing import Any

import jax
from jax.sharding import NamedSharding, PartitionSpec


def varying_axes(aval: Any) -> frozenset[Any]:
    """Mesh axes of the surrounding ``shard_map`` over which a value differs between devices."""
    manual = getattr(aval, "manual_axis_type", None)  # jax >= 0.10
    return manual.varying if manual is not None else getattr(aval, "vma", frozenset())


def align_varying(args: tuple[Any, ...]) -> tuple[Any, ...]:
    """Marks all arguments as varying over the mesh axes that any of them varies over.

    Operations with several operands require this under ``shard_map(check_vma=True)``; elsewhere nothing changes.
    """
    axes = [varying_axes(jax.typeof(arg)) for arg in args]
    union = frozenset().union(*axes)
    return tuple(
        jax.lax.pcast(arg, tuple(union - own), to="varying") if own != union else arg
        for arg, own in zip(args, axes, strict=True)
    )


def result_aval(inputs: tuple[Any, ...], shape: tuple[int, ...], dtype: Any) -> jax.core.ShapedArray:
    """The abstract value of a result that is not sharded over automatic axes and varies like the (aligned) inputs."""
    if not inputs:
        return jax.core.ShapedArray(shape, dtype)
    sharding = NamedSharding(inputs[0].sharding.mesh, PartitionSpec(*[None] * len(shape)))
    aval: jax.core.ShapedArray = inputs[0].update(shape=shape, dtype=dtype, weak_type=False, sharding=sharding)
    return aval
