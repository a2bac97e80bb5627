"""Refuses arguments that are no arrays, with errors that name the kernel and its parameters.

A wrapper is a ``jax.jit`` function, so a compiled call runs no Python of ours. JAX refuses an argument that is no array
before it traces. :class:`Traced` makes that refusal name the kernel and its parameter too.
"""

from __future__ import annotations

import inspect
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax

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
        if not isinstance(arg, jax.Array) and not is_array(arg):
            which = f"argument {index}" + (f" ({parameters[index]!r})" if index < len(parameters) else "")
            raise SignatureError(f"{name}: {which} is a {kind_of(arg)}, expected an array. {_cure(arg)}")


def is_array(arg: Any) -> bool:
    """Whether JAX takes it for an array: a JAX or NumPy array, a tracer, a number, or a shape and dtype."""
    try:
        jax.typeof(arg)
    except TypeError:
        return False
    return True


def kind_of(arg: Any) -> str:
    """The type of an argument in words, with its dtype if it has one."""
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
    """A function for ``jax.jit`` to trace. JAX's errors call its arguments by the names of the kernel's parameters.

    When JAX refuses an argument, it formats the function for its error message. At that moment :meth:`__repr__` instead
    raises the error of :func:`check_arrays`, which names the kernel and the parameter.

    Args:
        function: The function to trace.
        name: The kernel.
        inputs: Names of the inputs.
        check: Raises a SignatureError if one of the arguments is no array.
        variadic: Whether there may be more inputs than names.
        documentation: The docstring that ``help`` shows.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        name: str,
        inputs: Sequence[str],
        check: Callable[[Sequence[Any]], None],
        variadic: bool = False,
        documentation: str | None = None,
    ):
        self._function = function
        self.__name__ = self.__qualname__ = name
        self.__module__ = function.__module__
        self.__doc__ = documentation
        self.__signature__ = _Signature.of(name, inputs, check, variadic)

    def __call__(self, *args: Any, **keywords: Any) -> Any:
        return self._function(*args, **keywords)

    def __repr__(self) -> str:
        # JAX formats the function in its handler of a TypeError, after it has bound the arguments to name them.
        if isinstance(sys.exception(), TypeError) and (refused := self.__signature__.take_refused()) is not None:
            raise refused from None
        return f"<kernel {self.__name__}{self.__signature__}>"


class _Signature(inspect.Signature):
    """A signature that remembers, for each thread, the error for the arguments that were last bound to it."""

    _check: Callable[[Sequence[Any], Mapping[str, Any]], None]

    @classmethod
    def of(cls, name: str, inputs: Sequence[str], check: Callable[[Sequence[Any]], None], variadic: bool) -> _Signature:
        def check_all(args: Sequence[Any], keywords: Mapping[str, Any]) -> None:
            if keywords:
                raise no_keywords(keywords, name, inputs, variadic)
            check(args)

        signature = cls(positional(inputs, variadic))
        signature._check = check_all
        return signature

    def bind(self, /, *args: Any, **keywords: Any) -> inspect.BoundArguments:
        _latest.signature = _latest.refused = None
        try:
            self._check(args, keywords)
        except SignatureError as error:
            _latest.signature, _latest.refused = self, error
        except (OverflowError, ValueError):  # JAX explains what is wrong with numbers and with its own objects
            pass
        return super().bind(*args, **keywords)

    def take_refused(self) -> SignatureError | None:
        """The error for the arguments that were last bound, if they were bound to this signature; only once."""
        refused: SignatureError | None = getattr(_latest, "refused", None)
        if refused is None or _latest.signature is not self:
            return None
        _latest.signature = _latest.refused = None
        return refused


_latest = threading.local()


def positional(names: Sequence[str], variadic: bool = False) -> list[inspect.Parameter]:
    """Parameters that are passed by position; if ``variadic``, any number may follow."""
    parameters = [inspect.Parameter(name, inspect.Parameter.POSITIONAL_ONLY) for name in names]
    if variadic:
        rest = "arrays" if "arrays" not in names else "more_arrays"
        parameters.append(inspect.Parameter(rest, inspect.Parameter.VAR_POSITIONAL))
    return parameters
