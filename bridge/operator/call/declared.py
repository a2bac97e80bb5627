"""How an operator behaves under JAX's transformations, as its author declares it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from bridge.errors import SignatureError

Rule = Callable[..., Any]


@dataclass(frozen=True)
class Rules:
    """The declared rules of an operator; part of every call, so that a later rule leaves compiled programs alone.

    Attributes:
        jvp: See :meth:`bridge.XLACustomKernel.def_jvp`.
        vjp: See :meth:`bridge.XLACustomKernel.def_vjp`.
        transposes: By the index of each operand in which the operator is linear,
            see :meth:`bridge.XLACustomKernel.def_transpose`.
        batching: See :meth:`bridge.XLACustomKernel.def_batching`.
        dimensions: See :meth:`bridge.XLACustomKernel.def_partitioning`.
    """

    jvp: Rule | None = None
    vjp: tuple[Rule, Rule] | None = None
    transposes: tuple[tuple[int, Rule], ...] = ()
    batching: Rule | None = None
    dimensions: Dimensions | None = None


@dataclass(frozen=True)
class Dimensions:
    """The names of the dimensions of operands and results, such as ``"b i, i -> b"``.

    Attributes:
        operands: For each operand, its names.
        results: For each result, its names.
        split: Names of the dimensions that may be split over devices, because the operator treats their elements
            independently of each other.
    """

    operands: tuple[tuple[str, ...], ...]
    results: tuple[tuple[str, ...], ...]
    split: frozenset[str]

    @classmethod
    def parse(cls, text: str, split: frozenset[str], name: str) -> Dimensions:
        """Reads the notation.

        Raises:
            SignatureError: It is malformed, or a dimension to split is not one of every result.
        """
        if not isinstance(text, str):
            raise SignatureError(f"{name}: the dimensions are {text!r}, expected a string such as 'b i, i -> b'.")
        operands, arrow, results = text.partition("->")
        parsed = tuple(tuple(tuple(array.split()) for array in side.split(",")) for side in (operands, results))
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
