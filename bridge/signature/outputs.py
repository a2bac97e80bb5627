"""The types of one kernel call: shapes and dtypes of inputs and outputs, normalised and hashable."""

from __future__ import annotations

import inspect
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
from jax.export import is_symbolic_dim

from bridge.errors import BridgeError, SignatureError

VMAP_METHODS = (None, "expand_dims", "broadcast_all", "sequential", "sequential_unrolled", "legacy_vectorized")


@dataclass(frozen=True)
class ArrayType:
    """What a kernel is compiled for: dtype, rank and whether it may write to the array."""

    dtype: np.dtype[Any]
    rank: int
    writable: bool

    def __str__(self) -> str:
        return f"{self.dtype.name}:{self.rank}:{'w' if self.writable else 'r'}"

    @classmethod
    def parse(cls, text: str) -> ArrayType:
        """The inverse of ``str``; text written by another process included."""
        dtype, rank, access = text.split(":")
        return cls(jax.numpy.dtype(dtype), int(rank), access == "w")


@dataclass(frozen=True)
class Outputs:
    """The flat output specs of a call, and the container its results are returned in."""

    specs: tuple[jax.ShapeDtypeStruct, ...]
    tree: Any

    @classmethod
    def of(cls, outs: Any, name: str) -> Outputs:
        """Normalises what a user passes as ``outs``.

        Args:
            outs: A ``jax.ShapeDtypeStruct`` (or anything with ``shape`` and ``dtype``), or a pytree of these.
            name: The kernel or operator, for errors.

        Raises:
            SignatureError: There is no output, or a leaf is not a spec of an array.
        """
        leaves, tree = jax.tree.flatten(outs, is_leaf=lambda leaf: leaf is None)
        if not leaves:
            raise SignatureError(
                f"{name}: outs is {outs!r}, which declares no output; a kernel returns its results through its "
                "outputs. Pass a jax.ShapeDtypeStruct, or a list or pytree of them."
            )
        for leaf in leaves:
            if not (hasattr(leaf, "shape") and hasattr(leaf, "dtype")):
                raise SignatureError(
                    f"{name}: outs contains {leaf!r} of type {type(leaf).__name__}, expected jax.ShapeDtypeStruct "
                    "(an object with a shape and a dtype), or a list or pytree of them."
                )
        return cls(tuple(_spec(leaf, name) for leaf in leaves), tree)

    def unflatten(self, results: Sequence[Any]) -> Any:
        """Results in the container of ``outs``: one array for a single spec, a list for a list, and so on."""
        return jax.tree.unflatten(self.tree, results)

    def check_precision(self, name: str) -> None:
        """Refuses 64-bit outputs while JAX would truncate every 64-bit input.

        Raises:
            SignatureError: x64 is disabled and an output has a 64-bit dtype.
        """
        for index, spec in enumerate(self.specs):
            canonical = jax.dtypes.canonicalize_dtype(spec.dtype)
            if canonical != spec.dtype:
                raise SignatureError(
                    f"{name}: output {index} is declared {spec.dtype}, but JAX truncates it to {canonical} while x64 "
                    f"is disabled. Declare {canonical}, or call jax.config.update('jax_enable_x64', True) first."
                )


@dataclass(frozen=True)
class OutputsOf:
    """Outputs whose shapes and dtypes are a function of the inputs."""

    function: Callable[..., Any]

    def __call__(self, inputs: Sequence[Any], name: str) -> Outputs:
        """The outputs for inputs of these shapes and dtypes.

        Raises:
            SignatureError: The function takes another number of inputs, raises, or returns something else than what
                may be passed as ``outs``.
        """
        given = f"outs, a function of the inputs ({place_of(self.function)})"
        try:
            inspect.signature(self.function).bind(*inputs)
        except TypeError as error:
            raise SignatureError(
                f"{name}: {given}, was called with {len(inputs)} inputs: {error}. Let it take one argument for each "
                "input: anything with shape and dtype."
            ) from None
        except ValueError:  # it has no signature
            pass
        try:
            outs = self.function(*inputs)
        except (BridgeError, Warning):
            raise
        except Exception as error:
            raise SignatureError(
                f"{name}: {given}, raised {type(error).__name__}: {error}. It was called with "
                f"{', '.join(f'{each.dtype}{list(each.shape)}' for each in inputs) or 'nothing'}; it gets the shapes "
                "and dtypes of the inputs, and no values."
            ) from error
        return Outputs.of(outs, name)


def outputs_of(outs: Any, name: str) -> Outputs | OutputsOf:
    """Normalises what a user passes as ``outs`` of a kernel: shapes and dtypes, or a function of the inputs.

    Raises:
        SignatureError: It is malformed.
    """
    # A container that JAX knows, such as a dataclass, may have a __call__ of its own.
    is_function = callable(outs) and not hasattr(outs, "shape") and jax.tree_util.all_leaves([outs])
    return OutputsOf(outs) if is_function else Outputs.of(outs, name)


def place_of(function: Callable[..., Any]) -> str:
    """File and line of a function, where it has them; else its text."""
    code = getattr(function, "__code__", None)
    return f"{code.co_filename}:{code.co_firstlineno}" if code is not None else repr(function)


def _spec(leaf: Any, name: str) -> jax.ShapeDtypeStruct:
    """What ``outs`` says of one output, with extents of type int: 3.0 is equal to 3, but no extent."""
    if isinstance(leaf.dtype, np.dtype) and all(type(extent) is int and extent >= 0 for extent in leaf.shape):
        return jax.ShapeDtypeStruct(leaf.shape, leaf.dtype)
    try:
        shape = tuple(extent if is_symbolic_dim(extent) else operator.index(extent) for extent in leaf.shape)
        dtype = jax.numpy.dtype(leaf.dtype)
    except TypeError as error:
        raise _no_array(leaf, name) from error
    if any(type(extent) is int and extent < 0 for extent in shape):
        raise _no_array(leaf, name)
    return jax.ShapeDtypeStruct(shape, dtype)


def _no_array(leaf: Any, name: str) -> SignatureError:
    return SignatureError(
        f"{name}: outs contains an array of shape {leaf.shape} and dtype {leaf.dtype}, expected integers of at least 0 "
        "and a dtype such as jnp.float32."
    )


def check_known_shapes(arrays: Sequence[Any], name: str) -> None:
    """Raises SignatureError if an extent is symbolic, where the shapes of arrays are compiled into a launch."""
    for array in arrays:
        if any(is_symbolic_dim(extent) for extent in array.shape):
            raise SignatureError(
                f"{name}: {array.dtype}{list(array.shape)} has a symbolic shape, but its launch is compiled for known "
                "extents. Export one program for each shape."
            )


def check_rtol(rtol: Any, name: str) -> None:
    """Raises SignatureError unless ``rtol`` is None or a relative error: a number from 0."""
    known = isinstance(rtol, int | float | np.integer | np.floating) and not isinstance(rtol, bool)
    if rtol is not None and not (known and rtol >= 0):
        raise SignatureError(f"{name}: rtol is {rtol!r}, expected a number of at least 0, or None.")


def check_vmap_method(vmap_method: str | None, name: str) -> None:
    """Raises SignatureError unless ``vmap_method`` is one that ``jax.ffi.ffi_call`` knows."""
    if vmap_method not in VMAP_METHODS:
        raise SignatureError(f"{name}: vmap_method is {vmap_method!r}, expected one of {list(VMAP_METHODS)}.")


def check_aliases(aliases: Mapping[int, int] | None, name: str) -> tuple[tuple[int, int], ...]:
    """Normalises ``input_output_aliases`` to sorted pairs of input and output index.

    Raises:
        SignatureError: Not a mapping of ints, or an output aliased twice.
    """
    if aliases is None:
        return ()
    if not isinstance(aliases, Mapping) or not all(
        isinstance(index, int | np.integer) and index >= 0 for pair in aliases.items() for index in pair
    ):
        raise SignatureError(
            f"{name}: input_output_aliases is {aliases!r}, expected a dict from input index to output index, as "
            "{0: 0}."
        )
    pairs = tuple(sorted((int(i), int(o)) for i, o in aliases.items()))
    if len({o for _, o in pairs}) != len(pairs):
        raise SignatureError(f"{name}: input_output_aliases {dict(pairs)} maps two inputs to one output.")
    return pairs


def check_aliased_types(
    aliases: tuple[tuple[int, int], ...], inputs: Sequence[Any], outputs: Sequence[Any], name: str
) -> None:
    """Raises SignatureError unless each aliased pair exists and has one shape and dtype."""
    for i, o in aliases:
        if i >= len(inputs) or o >= len(outputs):
            raise SignatureError(
                f"{name}: input_output_aliases maps input {i} to output {o}, but the call has {len(inputs)} inputs and "
                f"{len(outputs)} outputs (indices start at 0)."
            )
        given, declared = inputs[i], outputs[o]
        if given.shape != declared.shape or given.dtype != declared.dtype:
            raise SignatureError(
                f"{name}: input_output_aliases maps input {i} ({given.dtype}{list(given.shape)}) to output {o} "
                f"({declared.dtype}{list(declared.shape)}); an alias needs one shape and dtype."
            )
