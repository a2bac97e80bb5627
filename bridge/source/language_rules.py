"""Describes what a kernel language makes of Python source, for :mod:`bridge.source.element_wise`."""

from __future__ import annotations

import types
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from bridge.source.affine import Counter
from bridge.source.meanings import Meanings


@dataclass(frozen=True)
class Source:
    """A function whose machine code does what its Python source says.

    Attributes:
        function: The function.
        is_parallel: Whether the compiler may assume that the arrays in a loop of the function do not overlap.
    """

    function: types.FunctionType
    is_parallel: bool = False


def _follow_nothing(value: Any) -> Source | None:
    return None


@dataclass(frozen=True)
class LanguageRules:
    """What a kernel language makes of Python source.

    Attributes:
        counters: The counters of the threads of a launch.
        attributes: Values of attributes, by the object (a name with dots for what is no object) and the attribute.
        calls: Functions of the language, in the same way: each takes the values of its arguments and returns a value,
            or None if it is unknown.
        follow: The source of an object that the language compiles when it is called; None for other objects.
        meanings: What the names in a function mean in the code; None if that is not known.
        largest_index: The largest number that an index can be. Larger ones begin again with negative numbers.
        reads_late: Whether the language may read an element later than its source says, where it has another name.
    """

    counters: tuple[Counter, ...] = ()
    attributes: Mapping[tuple[Any, str], Any] = field(default_factory=dict)
    calls: Mapping[Any, Callable[..., Any]] = field(default_factory=dict)
    follow: Callable[[Any], Source | None] = _follow_nothing
    meanings: Callable[[types.FunctionType], Meanings | None] = Meanings.of
    largest_index: int = 2**63 - 1
    reads_late: bool = False


def key_of(value: Any) -> Any:
    """How the tables of :class:`LanguageRules` name an object: by its id; a name with dots by itself."""
    return value if isinstance(value, str) else id(value)


@dataclass(frozen=True)
class TouchedElements:
    """The elements of its first argument that a function uses, whatever it is compiled to.

    Attributes:
        count: How many neighbours, from the index that is its second argument; 0 if it uses none.
        writes: Whether it writes them, and does not read them.
    """

    count: int = 0
    writes: bool = False


_TOUCHED: dict[int, tuple[Any, TouchedElements]] = {}
_ARITHMETIC: dict[int, Any] = {}


def declare_touched(function: Any, count: int = 0, *, writes: bool = False) -> None:
    """Says which elements of a vector a function of an extension uses, whose code is not its Python source.

    Args:
        function: The function, as kernels name it. Its arguments are a vector, an index, and others.
        count: How many neighbours it uses, from the index on.
        writes: Whether it writes them. If not, it returns a tuple of them.
    """
    _TOUCHED[id(function)] = function, TouchedElements(count, writes)


def touched_by(function: Any) -> TouchedElements | None:
    """What was declared about a function."""
    known = _TOUCHED.get(id(function))
    return None if known is None else known[1]


def declare_arithmetic(function: Any) -> None:
    """Says that the result of a function of an extension is computed from all of its arguments, which are numbers."""
    _ARITHMETIC[id(function)] = function


def is_arithmetic(function: Any) -> bool:
    """Whether the result of a function of numbers is computed from all of its arguments."""
    return (
        isinstance(function, np.ufunc)
        or (isinstance(function, type) and issubclass(function, np.generic))
        or getattr(function, "__module__", None) == "math"
        or id(function) in _ARITHMETIC
    )


for _function in (abs, bool, complex, float, int, max, min, round, np.where):
    declare_arithmetic(_function)
