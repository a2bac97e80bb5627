"""Computes the abstract values of results: shape, dtype, sharding, and the mesh axes that a value varies over."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
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


def mesh_of(avals: Sequence[Any]) -> Any:
    """The mesh of one or more arrays; an empty mesh if none of them has one."""
    meshes = [aval.sharding.mesh for aval in avals]
    return next((mesh for mesh in meshes if not mesh.empty), meshes[0])


def result_aval(
    inputs: Sequence[Any], shape: tuple[int, ...], dtype: Any, sharding: NamedSharding | None = None
) -> jax.core.ShapedArray:
    """The abstract value of a result that varies like the (aligned) inputs.

    Args:
        inputs: The abstract values of the inputs.
        shape: Shape of the result.
        dtype: Dtype of the result.
        sharding: The part of its sharding that is in its type; by default it is not split.
    """
    if not inputs:
        return jax.core.ShapedArray(shape, dtype)
    sharding = sharding or NamedSharding(mesh_of(inputs), PartitionSpec(*[None] * len(shape)))
    aval: jax.core.ShapedArray = inputs[0].update(shape=shape, dtype=dtype, weak_type=False, sharding=sharding)
    return aval


def element_bits(dtype: Any) -> int:
    """Bits of an element in XLA's memory, which packs elements of less than a byte."""
    item_bytes: int = np.dtype(dtype).itemsize
    if item_bytes > 1 or np.dtype(dtype) == np.bool_:
        return 8 * item_bytes
    limits: Any = jnp.iinfo if jnp.issubdtype(dtype, np.integer) else jnp.finfo
    return int(limits(dtype).bits)
