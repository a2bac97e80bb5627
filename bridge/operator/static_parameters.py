"""Identifies the keyword parameters of a call by content, so that JAX finds the program that is compiled for them."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any


class Parameters:
    """Static keyword parameters. Hashable, and equal only if one program is right for both.

    Two values count as the same if they have the same type and the same ``repr``, and are equal. Python calls 1, 1.0
    and True equal, and so 0.0 and -0.0; their ``repr`` tells them apart, in tuples and dataclasses too.

    Args:
        values: The values by name.

    Raises:
        TypeError: A value is not hashable.

    Attributes:
        items: Pairs of name and value, sorted by name.
    """

    __slots__ = ("_content", "_hash", "items")

    def __init__(self, values: Mapping[str, Any]):
        self.items: tuple[tuple[str, Any], ...] = tuple(sorted(values.items(), key=lambda item: item[0]))
        self._content = tuple([(name, content_of(value)) for name, value in self.items])
        self._hash = hash(self._content)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Parameters) and self._hash == other._hash and self._content == other._content

    def __hash__(self) -> int:
        return self._hash

    def __repr__(self) -> str:
        return f"Parameters({dict(self.items)!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        return Parameters, (dict(self.items),)


def content_of(value: Any) -> Hashable:
    """A key of a value that equals the keys of equal contents only.

    Raises:
        TypeError: The value is not hashable.
    """
    hash(value)
    same = value == value  # NaN is not equal to itself
    return type(value), repr(value), value if same else None


NO_PARAMETERS = Parameters({})
