"""Describes one call of an operator as plain data, which identifies a compiled program."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax

from bridge.compat.jax import hold_weakly
from bridge.debug.mode import OFF, Mode
from bridge.errors import SignatureError
from bridge.operator.static_parameters import NO_PARAMETERS, Parameters

Function = Callable[..., list[Any]]
"""A function of arrays that returns a flat list of arrays."""

Generator = Callable[..., Callable[..., Any]]
"""Takes keyword parameters, ``outs`` among them, and returns a function of the input arrays."""

Rule = Callable[..., Any]


class Candidate(NamedTuple):
    """A kernel that is registered for ``platform``, in one of its configurations.

    Attributes:
        platform: JAX's name of the platform.
        backend: The name it is registered under.
        generator: Makes the kernel.
        configuration: The name of its configuration, if it has any.
        options: The keyword parameters of the configuration.
    """

    platform: str
    backend: str
    generator: Generator
    configuration: str | None = None
    options: Parameters = NO_PARAMETERS

    @property
    def reference(self) -> str:
        """Its name in a call: ``"backend"`` or ``"backend:configuration"``."""
        return self.backend if self.configuration is None else f"{self.backend}:{self.configuration}"


Choice = tuple[Candidate, ...]
"""One candidate for each platform that has any, because the platform is known only when a computation is lowered."""


@dataclass(frozen=True)
class Dimensions:
    """The names of the dimensions of operands and results, see :meth:`bridge.XLACustomKernel.def_partitioning`.

    Attributes:
        operands: The names for each operand.
        results: The names for each result.
        split: Dimensions that may be split over devices, because the operator treats their elements independently of
            each other.
    """

    operands: tuple[tuple[str, ...], ...]
    results: tuple[tuple[str, ...], ...]
    split: frozenset[str]

    @classmethod
    def parse(cls, text: str, split: frozenset[str], name: str) -> Dimensions:
        """Reads the notation, such as ``"b i, i -> b"``, for the operator ``name``.

        Raises:
            SignatureError: It is malformed, or a result lacks a dimension that may be split.
        """
        operands, arrow, results = text.partition("->") if isinstance(text, str) else ("", "", "")
        parsed = [tuple(tuple(array.split()) for array in side.split(",")) for side in (operands, results)]
        names = {dimension for side in parsed for array in side for dimension in array}
        if not arrow or not all(dimension.isidentifier() for dimension in names):
            raise SignatureError(
                f"{name}: the dimensions are {text!r}, expected names of the dimensions of each operand and result, as "
                "'b i, i -> b'."
            )
        for dimension in sorted(split):
            if not all(dimension in array for array in parsed[1]):
                raise SignatureError(
                    f"{name}: the dimension {dimension!r} cannot be split, because it is not one of every result of "
                    f"{text!r}."
                )
        return cls(parsed[0], parsed[1], split)


@dataclass(frozen=True)
class Rules:
    """The rules of an operator. They are part of every call, so a later rule does not change compiled programs.

    Attributes:
        jvp: See :meth:`bridge.XLACustomKernel.def_jvp`.
        vjp: The forward and the backward rule, see :meth:`bridge.XLACustomKernel.def_vjp`.
        transposes: Pairs of an operand and its rule, see :meth:`bridge.XLACustomKernel.def_transpose`. The operator is
            linear in each of these operands.
        batching: See :meth:`bridge.XLACustomKernel.def_batching`.
        dimensions: See :meth:`bridge.XLACustomKernel.def_partitioning`.
    """

    jvp: Rule | None = None
    vjp: tuple[Rule, Rule] | None = None
    transposes: tuple[tuple[int, Rule], ...] = ()
    batching: Rule | None = None
    dimensions: Dimensions | None = None


@dataclass(frozen=True)
class OperatorCall:
    """The static part of one call of an operator. Hashable.

    Attributes:
        name: The operator.
        choice: The kernel to run on each platform.
        outputs: Shape and dtype of each result, without batch dimensions.
        parameters: Keyword parameters for the generator.
        rules: The rules that the author declared.
        has_side_effect: Run it even if nothing uses its results.
        batches: Extent and input axes of each surrounding ``vmap``, innermost first.
        mode: The debug mode in which it was traced.
        references: In a debug mode, the kernel to compare with, on each platform that has it.
    """

    name: str
    choice: Choice
    outputs: tuple[jax.ShapeDtypeStruct, ...]
    parameters: Parameters
    rules: Rules = Rules()
    has_side_effect: bool = False
    batches: tuple[tuple[int, tuple[int | None, ...]], ...] = ()
    mode: Mode = OFF
    references: Choice = ()

    def __repr__(self) -> str:
        return f"{self.name}[{', '.join(f'{c.platform}: {c.reference}' for c in self.choice)}]"

    @property
    def keywords(self) -> dict[str, Any]:
        """The keyword arguments of generators and rules: ``outs``, and the parameters of the call."""
        return {"outs": self.outputs, **dict(self.parameters.items)}


hold_weakly(OperatorCall)
