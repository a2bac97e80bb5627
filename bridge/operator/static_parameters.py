"""Identifies the keyword parameters of a call by content, so that JAX finds the program that is compiled for them."""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import struct
import threading
from array import array
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import Any

import numpy as np


class Parameters:
    """Static keyword parameters. Hashable, and equal only if one program is right for both.

    Python calls 1, 1.0 and True equal, and so 0.0 and -0.0; it calls NaN different from itself. Here numbers count by
    type and bits, in tuples, frozensets and frozen dataclasses too. Other objects count by their type and own ``==``.

    Args:
        values: The values by name.

    Raises:
        TypeError: A value is not hashable.

    Attributes:
        items: Pairs of name and value, sorted by name.
    """

    __slots__ = ("_contents", "_hash", "items")

    def __init__(self, values: Mapping[str, Any]):
        self.items: tuple[tuple[str, Any], ...] = tuple(sorted(values.items(), key=_name_of))
        self._contents = tuple([(name, Content.of(value)) for name, value in self.items])
        self._hash = hash(self._contents)

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        return isinstance(other, Parameters) and self._hash == other._hash and self._contents == other._contents

    def __hash__(self) -> int:
        return self._hash

    def __repr__(self) -> str:
        return f"Parameters({dict(self.items)!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        return Parameters, (dict(self.items),)


def _name_of(item: tuple[str, Any]) -> str:
    return item[0]


class Content:
    """The content of one value. It computes its hash once; a tuple would compute its own each time."""

    __slots__ = ("_hash", "_key")

    def __init__(self, key: Hashable):
        self._key = key
        self._hash = hash(key)

    @classmethod
    def of(cls, value: Any) -> Content:
        """The content of a value. It is computed once for a large container.

        Raises:
            TypeError: The value is not hashable.
        """
        kind = type(value)
        if kind is not tuple and kind is not frozenset:
            return cls(_Walk().key(value))
        known = _recent.get(id(value))
        if known is not None and known[0] is value:
            return known[1]
        walk = _Walk()
        content = cls(walk.key(value))
        if walk.is_plain and walk.count >= _LARGE:
            with _lock:
                while len(_recent) >= _KEPT:
                    del _recent[next(iter(_recent))]
                _recent[id(value)] = value, content
        return content

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        return isinstance(other, Content) and self._hash == other._hash and self._key == other._key

    def __hash__(self) -> int:
        return self._hash


_LARGE = 32
"""Containers of fewer elements are quickly walked again."""

_KEPT = 32
_recent: dict[int, tuple[Any, Content]] = {}
"""The latest large containers with their contents, by id. An id belongs to a container as long as it is kept here."""

_lock = threading.Lock()


class _Walk:
    """Makes keys that are equal for equal contents.

    Attributes:
        count: The number of elements so far.
        is_plain: Whether all of them are of types that cannot change.
    """

    def __init__(self) -> None:
        self.count = 0
        self.is_plain = True

    def key(self, value: Any) -> Hashable:
        """The key of a value: its type, and what tells it apart from other values of this type."""
        kind = type(value)
        if kind in _SIMPLE:
            return kind, value
        if (bits := _BITS.get(kind)) is not None:
            return kind, bits(value)
        if isinstance(value, tuple) and _compares_as(kind, tuple):
            return kind, self._elements(value)
        if isinstance(value, frozenset) and _compares_as(kind, frozenset):
            self.count += len(value)
            return kind, frozenset(Counter(map(self.key, value)).items())  # it may hold NaN more than once
        if isinstance(value, np.generic) and not value.dtype.hasobject:
            return kind, repr(value.dtype), value.tobytes()
        self.is_plain = False
        for base, bits in _BITS.items():
            if isinstance(value, base) and _compares_as(kind, base):
                return kind, bits(value)
        if (parts := _PARTS.get(kind)) is not None:
            return kind, tuple(map(self.key, parts(value)))
        if dataclasses.is_dataclass(kind) and kind.__hash__ is not None and not _compares_as(kind, object):
            key = kind, tuple([self.key(getattr(value, field.name)) for field in dataclasses.fields(kind)])
            if is_hashable(key):
                return key
        return kind, value

    def _elements(self, values: tuple[Any, ...]) -> Hashable:
        self.count += len(values)
        kinds = set(map(type, values))
        if kinds == {float}:
            return float, array("d", values).tobytes()
        if len(kinds) == 1 and kinds <= _SIMPLE:
            return kinds.pop(), values
        return tuple(map(self.key, values))


def _compares_as(kind: Any, base: Any) -> bool:
    return kind.__eq__ is base.__eq__


def is_hashable(value: Any) -> bool:
    """Whether Python can hash a value: it may have a method for that, but hold a value that has none."""
    try:
        hash(value)
    except TypeError:
        return False
    return True


def _bits(value: float) -> bytes:
    return struct.pack("=d", value)


def _complex_bits(value: complex) -> bytes:
    return struct.pack("=2d", value.real, value.imag)


_SIMPLE = frozenset({bool, int, str, bytes, type(None)})
"""Types whose equal values are alike."""

_BITS: Mapping[type, Callable[[Any], bytes]] = {float: _bits, complex: _complex_bits}

_PARTS: Mapping[type, Callable[[Any], Iterable[Any]]] = {
    decimal.Decimal: lambda value: value.as_tuple(),
    range: lambda value: (value.start, value.stop, value.step),
    slice: lambda value: (value.start, value.stop, value.step),
    datetime.datetime: lambda value: value.__reduce_ex__(4)[1],
    datetime.time: lambda value: value.__reduce_ex__(4)[1],
}
"""The parts of objects of the standard library that are equal although they differ in a part."""

NO_PARAMETERS = Parameters({})
