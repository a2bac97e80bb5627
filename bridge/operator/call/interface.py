"""Checks the arguments, outputs and parameters of a call before a kernel is chosen for it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax

from bridge.errors import ParameterError, SignatureError
from bridge.operator.call.keywords import check_keywords
from bridge.operator.static_parameters import Parameters, is_hashable
from bridge.signature.arguments import check_arrays, parameter_names
from bridge.signature.outputs import Outputs


class Interface:
    """The arguments and results that an operator has in calls.

    Args:
        name: The operator, for errors.
        outs: A function of the arrays and keyword parameters that returns ``outs`` for calls that do not pass it.

    Raises:
        SignatureError: ``outs`` is no function.
    """

    def __init__(self, name: str, outs: Callable[..., Any] | None):
        if outs is not None and not callable(outs):
            raise SignatureError(f"{name}: outs is {outs!r}, expected a function of the arrays and keyword parameters.")
        self._name = name
        self._outs = outs
        self._argument_names = [] if outs is None else parameter_names(outs)[0]

    @property
    def outs(self) -> Callable[..., Any] | None:
        """The function of the arrays and keyword parameters, if there is one."""
        return self._outs

    def check_arguments(self, args: Sequence[Any]) -> None:
        """Raises SignatureError if an argument is no array."""
        check_arrays(args, self._name, self._argument_names)

    def checked(self, args: Sequence[Any], outs: Any, parameters: Mapping[str, Any]) -> tuple[Outputs, Parameters]:
        """The outputs of a call, and its parameters.

        Raises:
            ParameterError: A parameter is a traced value, an array, or not hashable.
            SignatureError: An argument is no array, or ``outs`` is missing or malformed.
        """
        self.check_arguments(args)
        static = self._static(parameters)
        outputs = Outputs.of(self._declared(args, parameters) if outs is None else outs, self._name)
        outputs.check_precision(self._name)
        return outputs, static

    def _declared(self, args: Sequence[Any], parameters: Mapping[str, Any]) -> Any:
        if self._outs is None:
            raise SignatureError(
                f"{self._name}: outs is missing. Pass the shapes and dtypes of the results, or construct the operator "
                "with outs, a function of its arguments."
            )
        try:
            return self._outs(*map(jax.typeof, args), **parameters)
        except TypeError:
            check_keywords(self._outs, parameters, self._name, "its function outs", len(args))
            raise

    def _static(self, parameters: Mapping[str, Any]) -> Parameters:
        for key, value in parameters.items():
            if isinstance(value, jax.core.Tracer):
                raise ParameterError(
                    f"{self._name}: parameter {key!r} is a traced value ({jax.typeof(value)}), but parameters are "
                    f"compiled into the kernel. Mark it static in the surrounding jax.jit (static_argnames={key!r}), "
                    "or pass it to the kernel as an array argument."
                )
        try:
            return Parameters(parameters)
        except TypeError as error:
            key, value = next(item for item in parameters.items() if not is_hashable(item[1]))
            raise ParameterError(
                f"{self._name}: parameter {key!r} is {value!r} of type {type(value).__name__}, which is not "
                "hashable, but parameters are compiled into the kernel. Pass a number, string or tuple; pass "
                "arrays as arguments."
            ) from error
