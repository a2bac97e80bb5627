"""Describes the arrays of a call: the outputs that a user declares, and the types that compilers get."""

from __future__ import annotations

import inspect
import operator
from collections.abc import Callable, Container, Hashable, Sequence
from dataclasses import dataclass
from types import FunctionType
from typing import Any

import jax
import msgspec
import numpy as np
from jax.export import is_symbolic_dim

from bridge.errors import BridgeError, SignatureError


class ArrayType(msgspec.Struct, frozen=True, array_like=True):
    """The type of one array.

    Attributes:
        dtype: Name of the dtype.
        shape: Extents, without batch dimensions. They are None where a kernel is compiled for any extent.
        writable: Whether the kernel may write to the array.
    """

    dtype: str
    shape: tuple[int | None, ...]
    writable: bool

    @property
    def rank(self) -> int:
        return len(self.shape)

    @property
    def item_bytes(self) -> int:
        """Bytes of an element."""
        return jax.numpy.dtype(self.dtype).itemsize

    @property
    def extents(self) -> tuple[int, ...]:
        """The shape of an array whose extents are known."""
        known = tuple(extent for extent in self.shape if extent is not None)
        assert len(known) == self.rank, f"the extents of {self} are not known"
        return known


class Signature(msgspec.Struct, frozen=True):
    """The types of the arrays of one call. Hashable, and the same text in every process.

    Attributes:
        inputs: The types of the inputs.
        outputs: The types of the outputs.
    """

    inputs: tuple[ArrayType, ...]
    outputs: tuple[ArrayType, ...]

    @classmethod
    def of(
        cls,
        name: str,
        inputs: Sequence[Any],
        outputs: Sequence[Any],
        writable: Container[int],
        *,
        with_extents: bool,
        symbolic: bool = False,
    ) -> Signature:
        """The signature of a call.

        Args:
            name: The kernel, for errors.
            inputs: Anything with shape and dtype, for each input.
            outputs: The same for each output.
            writable: Indices of the inputs that the kernel may write to.
            with_extents: Whether the kernel is compiled for extents, and not for ranks only.
            symbolic: Whether it is compiled for any extent where this is symbolic.

        Raises:
            SignatureError: An extent is symbolic, but the kernel is compiled for extents.
        """
        if with_extents and not symbolic:
            check_known_shapes([*inputs, *outputs], name)

        def array_type(array: Any, writable: bool) -> ArrayType:
            shape = (each if with_extents and not is_symbolic_dim(each) else None for each in array.shape)
            return ArrayType(array.dtype.name, tuple(shape), writable)

        return cls(
            tuple(array_type(array, index in writable) for index, array in enumerate(inputs)),
            tuple(array_type(array, True) for array in outputs),
        )

    @property
    def arrays(self) -> tuple[ArrayType, ...]:
        """The types of inputs and outputs, in the order in which kernels take them."""
        return self.inputs + self.outputs

    @property
    def input_sizes(self) -> tuple[tuple[int, int], ...]:
        """Rank and bytes of an element of each input, as the plans of :mod:`bridge.ffi.plans` take them."""
        return tuple((array.rank, array.item_bytes) for array in self.inputs)

    @property
    def output_sizes(self) -> tuple[tuple[int, int], ...]:
        """The same for each output."""
        return tuple((array.rank, array.item_bytes) for array in self.outputs)


def check_known_shapes(arrays: Sequence[Any], name: str) -> None:
    """Raises SignatureError if an extent is symbolic, for kernels whose launch is compiled for known extents."""
    for array in arrays:
        if any(is_symbolic_dim(extent) for extent in array.shape):
            raise SignatureError(
                f"{name}: {array.dtype}{list(array.shape)} has a symbolic shape, but its launch is compiled for known "
                "extents. Export one program for each shape."
            )


@dataclass(frozen=True)
class Outputs:
    """The specs of all outputs of a call in one sequence, and the container in which its results are returned."""

    specs: tuple[jax.ShapeDtypeStruct, ...]
    tree: Any

    @classmethod
    def of(cls, outs: Any, name: str) -> Outputs:
        """Normalises ``outs`` as a user passes it.

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
            SignatureError: The function takes another number of inputs, raises an exception, or returns a value that
                cannot be passed as ``outs``.
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
    """Normalises the ``outs`` of a kernel: shapes and dtypes, or a function of the inputs that returns them.

    Raises:
        SignatureError: It is malformed.
    """
    # A container that JAX knows, such as a dataclass, may have a __call__.
    is_function = callable(outs) and not hasattr(outs, "shape") and jax.tree_util.all_leaves([outs])
    return OutputsOf(outs) if is_function else Outputs.of(outs, name)


def key_of_function(function: Callable[..., Any]) -> Hashable:
    """A key for as long as the function lives: equal if Python made the functions by one line with the same variables.

    So a lambda that takes nothing from around it is the same whenever the line runs again. The key refers to nothing.
    """
    if not isinstance(function, FunctionType):
        return id(function)
    parts = function.__code__, function.__globals__, *(function.__closure__ or ()), *(function.__defaults__ or ())
    return *map(id, parts), *((name, id(value)) for name, value in (function.__kwdefaults__ or {}).items())


def place_of(function: Callable[..., Any]) -> str:
    """File and line of a function if it has them; else its text."""
    code = getattr(function, "__code__", None)
    return f"{code.co_filename}:{code.co_firstlineno}" if code is not None else repr(function)


def _spec(leaf: Any, name: str) -> jax.ShapeDtypeStruct:
    """One output of ``outs`` with extents of type int. Other types are refused: 3.0 equals 3, but is no extent."""
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


def check_rtol(rtol: Any, name: str) -> None:
    """Raises SignatureError unless ``rtol`` is None or a relative error: a number from 0."""
    known = isinstance(rtol, int | float | np.integer | np.floating) and not isinstance(rtol, bool)
    if rtol is not None and not (known and rtol >= 0):
        raise SignatureError(f"{name}: rtol is {rtol!r}, expected a number of at least 0, or None.")
