"""Runs calls that are split in a known way, such as by the types of arguments on meshes with explicit axes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
from jax.sharding import AxisType

from bridge.ffi.mesh.division import Division, Part, Split, axes_of_type


def run_split(split: Split, division: Division, part: Part) -> Callable[..., Any]:
    """A function of the whole arrays of a call that runs a part of the call on each device.

    It warns of each dimension that it gathers.
    """
    specs = [split.sharding(names) for names in division.operands]

    def run(*arrays: Any) -> Any:
        for gathered in split.gathered:
            division.warn_of_gather(*gathered)
        with jax.sharding.use_abstract_mesh(split.mesh):
            try:
                mapped = jax.shard_map(
                    part(split.parts),
                    in_specs=tuple(each.spec for each in specs),
                    out_specs=[split.sharding(names).spec for names in division.results],
                    axis_names=set(split.over),
                    check_vma=False,
                )
                return mapped(*map(with_sharding, arrays, specs))
            except ValueError as error:
                error.add_note(
                    f"(raised while {division.call} was split over an explicit mesh; JAX 0.9 needs jax.jit around a "
                    "jax.vmap over a dimension that is split)"
                )
                raise

    return run


def with_sharding(array: Any, sharding: Any) -> Any:
    """The array with a sharding in its type; the array itself if there is nothing to change."""
    own = jax.typeof(array).sharding
    if sharding.mesh.empty or own == sharding:
        return array
    return jax.sharding.reshard(array, sharding)


def is_explicit(sharding: Any) -> bool:
    """Whether a sharding is part of the types of arrays, because its mesh has explicit axes."""
    return bool(axes_of_type(sharding.mesh, AxisType.Explicit))
