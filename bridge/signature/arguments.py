"""Refuses arguments that are no arrays, and options that make no sense, with errors that name the kernel.

A wrapper is a ``jax.jit`` function, so a compiled call runs no Python of ours. JAX itself refuses objects that it does
not know, such as strings, before it traces; :class:`Traced` makes its error name the kernel and its parameter.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import numpy as np

from bridge.errors import SignatureError


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
            raise SignatureError(f"{name}: {which} is a {kind_of(arg)}, expected an array. {_cure(arg)}")


def is_array(arg: Any) -> bool:
    """Whether JAX takes it for an array: a JAX or NumPy array, a tracer, a number, or a shape and dtype."""
    try:
        return isinstance(jax.typeof(arg), jax.core.ShapedArray)
    except TypeError:
        return False


def kind_of(arg: Any) -> str:
    """The type of an argument in words, with its dtype if it has one."""
    if isinstance(arg, jax.Ref):
        return f"jax.Ref of {arg.dtype}, whose value is ref[...]"
    return f"{type(arg).__name__} of {arg.dtype}" if hasattr(arg, "dtype") else type(arg).__name__


def _cure(arg: Any) -> str:
    if isinstance(arg, list | tuple):
        return "Pass each array as an argument of its own; jnp.asarray makes one array of a sequence of numbers."
    return "Pass each array as an argument of its own."


def no_keywords(names: Mapping[str, Any], name: str, inputs: Sequence[str], variadic: bool) -> SignatureError:
    """The error for arrays that were passed by name."""
    given = ", ".join(names)
    call = f"{name}({', '.join([*inputs, '...'] if variadic else inputs)})"
    return SignatureError(f"{name} got {given} by name, but kernels take their arrays by position. Call {call}.")


class Traced:
    """A function for ``jax.jit`` to trace. JAX's errors call it and its arguments by the names of the kernel.

    Args:
        function: The function to trace.
        name: The kernel.
        inputs: Names of the inputs.
        variadic: Whether there may be more inputs than names.
        documentation: The docstring that ``help`` shows.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        name: str,
        inputs: Sequence[str],
        *,
        variadic: bool = False,
        documentation: str | None = None,
    ):
        self._function = function
        self.__name__ = self.__qualname__ = name
        self.__module__ = function.__module__
        self.__doc__ = documentation
        self.__signature__ = inspect.Signature(positional(inputs, variadic))

    def __call__(self, *args: Any, **keywords: Any) -> Any:
        return self._function(*args, **keywords)

    def __repr__(self) -> str:
        return f"<kernel {self.__name__}{self.__signature__}>"


def positional(names: Sequence[str], variadic: bool = False) -> list[inspect.Parameter]:
    """Parameters that are passed by position; if ``variadic``, any number may follow."""
    parameters = [inspect.Parameter(name, inspect.Parameter.POSITIONAL_ONLY) for name in names]
    if variadic:
        rest = "arrays" if "arrays" not in names else "more_arrays"
        parameters.append(inspect.Parameter(rest, inspect.Parameter.VAR_POSITIONAL))
    return parameters


VMAP_METHODS = (None, "expand_dims", "broadcast_all", "sequential", "sequential_unrolled", "legacy_vectorized")


def check_vmap_method(vmap_method: str | None, name: str) -> None:
    """Raises SignatureError unless ``vmap_method`` is one that ``jax.ffi.ffi_call`` knows."""
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
