"""Says along which dimensions a call may be split over devices, and splits it as the types of its arguments say."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
from jax.sharding import AxisType, NamedSharding, PartitionSpec

from bridge.errors import GatherWarning

Name = Hashable
Names = tuple[Name, ...]
MeshAxes = tuple[str, ...]
Parts = Mapping[Name, int]
"""The number of parts that a dimension is split into, by name; 1 for names that are missing."""

Part = Callable[[Parts], Callable[..., list[Any]]]
"""Makes the function that runs a call on one part of its arguments."""


@dataclass(frozen=True)
class Division:
    """The dimensions of a call's operands and results by name; equal names mean equal extents.

    Attributes:
        call: The kernel or operator, for warnings.
        operands: The names for each operand.
        results: The names for each result.
        splittable: Names of dimensions whose elements the call treats independently of each other. Each result has
            them all.
    """

    call: str
    operands: tuple[Names, ...]
    results: tuple[Names, ...]
    splittable: frozenset[Name]

    def warn_of_gather(self, operand: int, dimension: int, axes: MeshAxes) -> None:
        """Warns that every device gathers a dimension of an operand, which is split over some mesh axes."""
        over = f"over the mesh {_listed(axes)} along its dimension {dimension}"
        if self.operands[operand][dimension] in self.splittable:
            cause = "but its parts differ in size, or another argument is split in another way"
            cure = "Split all arguments alike, into equal parts"
        else:
            cause = "but a call needs all of it"
            cure = "Split a batch dimension under jax.vmap, or the dimensions that def_partitioning declares"
        self._warn(operand, over, cause, cure)

    def warn_of_unknown_split(self, operand: int) -> None:
        """Warns that every device gathers an operand, because JAX does not tell how it is split."""
        cure = "Split it over axes of one mesh for the whole program, and over all of them in jax.shard_map"
        self._warn(operand, "in some way", "which JAX does not tell", cure)

    def warn_of_no_split(self, cause: str) -> None:
        """Warns that XLA does not split the call over automatic axes of a mesh."""
        warnings.warn(
            f"{self.call} {cause} and runs on a mesh with Auto axes, where XLA cannot split it: every device "
            "runs the whole call, and gathers the arguments that are split. Use Explicit axes, or jax.shard_map.",
            GatherWarning,
            stacklevel=2,
        )

    def _warn(self, operand: int, how: str, cause: str, cure: str) -> None:
        warnings.warn(
            f"{self.call}: argument {operand} is split {how}, {cause}: every device gathers it. {cure}; or gather it "
            "before the call, with jax.sharding.reshard.",
            GatherWarning,
            stacklevel=3,
        )


def _listed(axes: MeshAxes) -> str:
    return ("axis " if len(axes) == 1 else "axes ") + " and ".join(map(repr, axes))


def axes_of(entry: Any) -> MeshAxes:
    """The mesh axes in an entry of a PartitionSpec."""
    if entry is None or entry is PartitionSpec.UNCONSTRAINED:
        return ()
    return tuple(entry) if isinstance(entry, tuple) else (entry,)


def spec_of(names: Names, axes: Mapping[Name, MeshAxes]) -> PartitionSpec:
    """The PartitionSpec of an array with named dimensions, each of which is split over some mesh axes."""
    entries = (axes.get(name, ()) for name in names)
    return PartitionSpec(*[(each[0] if len(each) == 1 else each) if each else None for each in entries])


def axes_of_type(mesh: Any, kind: AxisType) -> MeshAxes:
    """The axes of a mesh that have a type."""
    return tuple(name for name, each in zip(mesh.axis_names, mesh.axis_types, strict=True) if each is kind)


@dataclass(frozen=True)
class Split:
    """How a call is split over a mesh.

    Attributes:
        mesh: The mesh of the arguments.
        over: The mesh axes along which each device makes its own call.
        axes: The mesh axes over which a dimension is split, by name.
        gathered: Operand, dimension and mesh axes of each dimension that every device gathers.
    """

    mesh: Any
    over: MeshAxes
    axes: Mapping[Name, MeshAxes]
    gathered: tuple[tuple[int, int, MeshAxes], ...]

    @property
    def parts(self) -> Parts:
        """The number of parts of each dimension that is split."""
        return {name: math.prod(self.mesh.shape[axis] for axis in axes) for name, axes in self.axes.items()}

    def sharding(self, names: Names) -> NamedSharding:
        """The sharding of an operand or result, as it is part of its type."""
        return NamedSharding(self.mesh, spec_of(names, self.axes))


def split_of(division: Division, avals: Sequence[Any], mesh: Any) -> Split | None:
    """The split of a call by the types of its arguments, on their mesh; None if this has no explicit axes.

    The first argument that is split along a dimension decides for all. A mesh axis splits one dimension.
    """
    over = axes_of_type(mesh, AxisType.Explicit)
    if not over:
        return None
    dimensions = [
        (operand, dimension, name, axes_of(entry))
        for operand, (aval, names) in enumerate(zip(avals, division.operands, strict=True))
        if not aval.sharding.mesh.empty
        for dimension, (name, entry) in enumerate(zip(names, aval.sharding.spec, strict=True))
    ]
    axes: dict[Name, MeshAxes] = {}
    for _, _, name, own in dimensions:
        taken = {axis for other in axes.values() for axis in other}
        if own and name in division.splittable and not taken & set(own):
            axes.setdefault(name, own)
    gathered = [(operand, at, own) for operand, at, name, own in dimensions if own and axes.get(name) != own]
    return Split(mesh, over, axes, tuple(gathered))


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
