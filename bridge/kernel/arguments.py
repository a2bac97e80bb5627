"""Describes the arrays of a call, and refuses arguments and options that make no sense, in the name of the kernel.

A wrapper is a ``jax.jit`` function, so a compiled call runs no Python of ours. JAX itself refuses objects that it does
not know, such as strings, before it traces; :func:`with_names` makes its error name the kernel and its parameter.
"""

from __future__ import annotations

import inspect
import operator
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import msgspec
import numpy as np
from jax.export import is_symbolic_dim

from bridge.errors import BridgeError, SignatureError
from bridge.kernel.references import place_of


def parameter_names(function: Callable[..., Any]) -> tuple[list[str], bool]:
    """Names of the positional parameters of a function, and whether it takes any number of further arguments."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except ValueError:  # a function in C has no signature
        return [], True
    names = [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    return names, any(p.kind is p.VAR_POSITIONAL for p in parameters)


def check_arrays(args: Sequence[Any], name: str, parameters: Sequence[str] = ()) -> None:
    """Checks that JAX takes all arguments for arrays.

    Args:
        args: The arguments.
        name: The kernel or operator, for errors.
        parameters: Names of its parameters, for errors.

    Raises:
        SignatureError: One of them is no array.
    """
    for index, arg in enumerate(args):
        if not is_array(arg):
            which = f"argument {index}" + (f" ({parameters[index]!r})" if index < len(parameters) else "")
            raise SignatureError(
                f"{name}: {which} is a {kind_of(arg)}, expected an array. Pass each "
                "array as an argument of its own; jnp.asarray makes one array of a sequence of numbers."
            )


def is_array(arg: Any) -> bool:
    """Whether JAX takes it for an array: a JAX or NumPy array, a tracer, a number, or a shape and dtype."""
    try:
        return isinstance(jax.typeof(arg), jax.core.ShapedArray)
    except TypeError:
        return False


def kind_of(arg: Any) -> str:
    """The type of an argument in words, with its dtype if it has one."""
    return f"{type(arg).__name__} of {arg.dtype}" if hasattr(arg, "dtype") else type(arg).__name__


def no_keywords(names: Mapping[str, Any], name: str, inputs: Sequence[str], variadic: bool) -> SignatureError:
    """The error for arrays that were passed by name."""
    given = ", ".join(names)
    call = f"{name}({', '.join([*inputs, '...'] if variadic else inputs)})"
    return SignatureError(f"{name} got {given} by name, but kernels take their arrays by position. Call {call}.")


def with_names(
    function: Callable[..., Any],
    name: str,
    inputs: Sequence[str],
    *,
    variadic: bool = False,
    kernel: Callable[..., Any] | None = None,
) -> Callable[..., Any]:
    """The function, for ``jax.jit`` to trace. JAX's errors call it and its arguments by the names of the kernel.

    Args:
        function: The function, which is nobody else's.
        name: The kernel.
        inputs: Names of the inputs.
        variadic: Whether there may be more inputs than names.
        kernel: What has the docstring that ``help`` shows.
    """
    signature = inspect.Signature(positional(inputs, variadic))
    vars(function).update(__signature__=signature)
    function.__name__ = function.__qualname__ = name
    function.__doc__ = kernel and kernel.__doc__
    return function


def positional(names: Sequence[str], variadic: bool = False) -> list[inspect.Parameter]:
    """Parameters that are passed by position; if ``variadic``, any number may follow."""
    parameters = [inspect.Parameter(name, inspect.Parameter.POSITIONAL_ONLY) for name in names]
    if variadic:
        rest = "arrays" if "arrays" not in names else "more_arrays"
        parameters.append(inspect.Parameter(rest, inspect.Parameter.VAR_POSITIONAL))
    return parameters


VMAP_METHODS = (
    None, "parallel", "expand_dims", "broadcast_all", "sequential", "sequential_unrolled", "legacy_vectorized",
)  # fmt: skip


def check_vmap_method(vmap_method: str | None, name: str) -> None:
    """Raises SignatureError unless ``vmap_method`` is ``"parallel"`` or one that ``jax.ffi.ffi_call`` knows."""
    if not isinstance(vmap_method, str | None) or vmap_method not in VMAP_METHODS:
        raise SignatureError(f"{name}: vmap_method is {vmap_method!r}, expected one of {list(VMAP_METHODS)}.")


def check_aliases(aliases: Mapping[int, int] | None, name: str) -> tuple[tuple[int, int], ...]:
    """Normalises ``input_output_aliases`` to sorted pairs of input and output index.

    Raises:
        SignatureError: ``aliases`` is not a mapping of ints, or maps two inputs to one output.
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
    ) -> Signature:
        """The signature of a call.

        Args:
            name: The kernel, for errors.
            inputs: Anything with shape and dtype, for each input.
            outputs: The same for each output.
            writable: Indices of the inputs that the kernel may write to.
            with_extents: Whether the kernel is compiled for extents, and not for ranks only.

        Raises:
            SignatureError: An extent is symbolic, but the kernel is compiled for extents.
        """
        if with_extents:
            check_known_shapes([*inputs, *outputs], name)

        def array_type(array: Any, writable: bool) -> ArrayType:
            shape = array.shape if with_extents else (None,) * len(array.shape)
            return ArrayType(array.dtype.name, shape, writable)

        return cls(
            tuple(array_type(array, index in writable) for index, array in enumerate(inputs)),
            tuple(array_type(array, True) for array in outputs),
        )

    @property
    def arrays(self) -> tuple[ArrayType, ...]:
        """The types of inputs and outputs, in the order in which kernels take them."""
        return self.inputs + self.outputs


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
        given = ", ".join(f"{each.dtype}{list(each.shape)}" for each in inputs) or "nothing"
        gets = f"It was called with {given}; it gets the shapes and dtypes of the inputs, and no values."
        says = f"{name}: outs, a function of the inputs ({place_of(self.function)}),"
        return Outputs.of(asked(self.function, inputs, says, gets), name)


def asked(function: Callable[..., Any], args: Sequence[Any], says: str, gets: str) -> Any:
    """What a function of the user returns, which describes a call.

    Args:
        function: The function.
        args: Its arguments.
        says: How an error begins, if the function raises one.
        gets: What the function gets, for the error.

    Raises:
        SignatureError: The function raised an exception.
    """
    try:
        return function(*args)
    except (BridgeError, Warning):
        raise
    except Exception as error:
        raise SignatureError(f"{says} raised {type(error).__name__}: {error}. {gets}") from error


def outputs_of(outs: Any, name: str) -> Outputs | OutputsOf:
    """Normalises the ``outs`` of a kernel: shapes and dtypes, or a function of the inputs that returns them.

    Raises:
        SignatureError: It is malformed.
    """
    # A container that JAX knows, such as a dataclass, may have a __call__.
    is_function = callable(outs) and not hasattr(outs, "shape") and jax.tree_util.all_leaves([outs])
    return OutputsOf(outs) if is_function else Outputs.of(outs, name)


def _spec(leaf: Any, name: str) -> jax.ShapeDtypeStruct:
    """One output of ``outs`` with extents of type int. Other types are refused: 3.0 equals 3, but is no extent."""
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
