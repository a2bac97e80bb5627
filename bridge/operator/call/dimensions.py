"""Reads the notation for the dimensions of operands and results, such as ``"b i, i -> b"``."""

from __future__ import annotations

from dataclasses import dataclass

from bridge.errors import SignatureError


@dataclass(frozen=True)
class Dimensions:
    """The names of the dimensions of operands and results.

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
        """Reads the notation.

        Args:
            text: The notation, such as ``"b i, i -> b"``.
            split: Dimensions that may be split.
            name: The operator, for errors.

        Raises:
            SignatureError: It is malformed, or a result lacks a dimension that may be split.
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
