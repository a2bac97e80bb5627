"""Checks the options of ``jax_kernel`` and of its calls: launch dimensions, and the shapes of outputs."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import warp as wp

from bridge.errors import LaunchError, SignatureError
from bridge.languages.warp.dtypes import MAX_DIMENSIONS, MAX_EXTENT
from bridge.languages.warp.parameters import Parameter, Role

Dims = tuple[int, ...]
OutputDims = Dims | tuple[tuple[str, Dims], ...] | None
"""Shapes of the outputs: one for all, or one for each name."""

_MOST_OUTPUT_DIMS = MAX_DIMENSIONS + 2  # with the dimensions of a matrix


@dataclass(frozen=True)
class Options:
    """The facts of a call that are known before its arrays. Hashable.

    Attributes:
        kernel: The user's kernel; it may be generic.
        parameters: Its parameters.
        launch_dims: Threads along each dimension; None to take the shape of the first array.
        output_dims: Shapes of outputs that are not in/out arguments, in elements; None for the launch dimensions.
        block_dim: Threads of a block; None for Warp's default.
        vmap_method: As for :func:`bridge.numba_kernel`.
        has_side_effect: Run it even if nothing uses its results.
    """

    kernel: wp.Kernel
    parameters: tuple[Parameter, ...]
    launch_dims: Dims | None
    output_dims: OutputDims
    block_dim: int | None
    vmap_method: str | None
    has_side_effect: bool

    def override(self, launch_dims: Any = None, output_dims: Any = None, vmap_method: str | None = None) -> Options:
        """A copy of these options with the options that a single call overrides."""
        changes: dict[str, Any] = {}
        if launch_dims is not None:
            changes["launch_dims"] = check_dims(self.kernel.key, "launch_dims", launch_dims)
        if output_dims is not None:
            changes["output_dims"] = check_output_dims(self.kernel.key, self.parameters, output_dims)
        if vmap_method is not None:
            changes["vmap_method"] = vmap_method
        return replace(self, **changes)


def check_dims(name: str, option: str, dims: Any, most: int = MAX_DIMENSIONS) -> Dims:
    """Extents as a tuple of ints.

    Args:
        name: The kernel, for errors.
        option: Name of the option, for errors.
        dims: An int, or a sequence of one to ``most`` ints.
        most: The largest number of extents.

    Raises:
        LaunchError: ``dims`` is something else, or an extent is negative or too large for Warp's 32-bit indices.
    """
    try:
        given = tuple(dims) if isinstance(dims, Iterable) else (dims,)
        extents = tuple(map(operator.index, given))
    except TypeError:  # no integer, or an array of no dimensions
        given = extents = ()
    if (
        any(isinstance(extent, bool) for extent in given)
        or min(extents, default=-1) < 0
        or max(extents, default=0) > MAX_EXTENT
        or len(extents) > most
    ):
        raise LaunchError(
            f"{name}: {option} is {dims!r}, expected an int or a sequence of one to {most} ints, each between 0 and "
            f"{MAX_EXTENT}."
        )
    return extents


def check_output_dims(name: str, parameters: Sequence[Parameter], output_dims: Any) -> OutputDims:
    """Normalises ``output_dims``: None, one shape, or a dict of shapes by the names of outputs.

    Raises:
        SignatureError: A dict does not name exactly the outputs; in/out arguments have the shape that is passed.
        LaunchError: A shape is malformed.
    """
    if output_dims is None:
        return None
    if not isinstance(output_dims, Mapping):
        return check_dims(name, "output_dims", output_dims, _MOST_OUTPUT_DIMS)
    expected = [parameter.name for parameter in parameters if parameter.role is Role.OUTPUT]
    if set(output_dims) != set(expected):
        raise SignatureError(
            f"{name}: output_dims has shapes for {sorted(map(str, output_dims))}, expected one for each output: "
            f"{expected}."
        )
    return tuple(
        (key, check_dims(name, f"output_dims[{key!r}]", output_dims[key], _MOST_OUTPUT_DIMS)) for key in expected
    )
