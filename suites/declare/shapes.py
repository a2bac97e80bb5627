"""Reads declared shapes such as ``("m n", "n")``, and draws samples of them, for operators without a ``sample``.

Each input has a text: the names of its axes, or numbers. Equal names are equal extents. Before the axes there may be a
dtype, if it is not the tested one; after them the range of integers::

    shapes=("m n", "n")              # a matrix and a vector
    shapes=("rows d", "int32 k < rows", "bool k")    # a table, indices into it, flags
    shapes=("int8 n in -5..5", "")                   # integers from -5 to 5, a scalar
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from suites.declare import fields
from suites.declare.domain import Domain
from suites.errors import OperatorError
from suites.numerics.arrays import Array, Inputs
from suites.numerics.edges import values

_RANGE = re.compile(r"^(?P<axes>.*?)(?:\s*<\s*(?P<below>\w+)|\s+in\s+(?P<least>-?\d+)\.\.(?P<most>-?\d+))?\s*$")
EXPECTED = "expected the names of its axes, such as 'm n', 'int32 k < m' or 'int8 n in -5..5'"


@dataclass(frozen=True)
class InputShape:
    """The shape of one input.

    Attributes:
        dtype: Its dtype; None for the tested one.
        axes: The names or extents of its axes.
        below: The name or number that its integers stay below; None if they need not.
        least: Its least integer; None if any.
        most: Its largest integer; None if any.
    """

    dtype: str | None
    axes: tuple[str, ...]
    below: str | None = None
    least: int | None = None
    most: int | None = None


def shapes_of(where: str, given: Any) -> tuple[InputShape, ...]:
    """Returns the shapes that an author declares, one text for each input.

    Raises:
        OperatorError: A text is no shape; the message says which.
    """
    several = (given,) if isinstance(given, str) else given
    if not isinstance(several, Sequence) or not several or not all(isinstance(each, str) for each in several):
        raise OperatorError(f"{where} is {given!r}, expected a text for each input, such as ('m n', 'n').")
    shapes = tuple(_shape(f"{where}[{index}]", each) for index, each in enumerate(several))
    known = {axis for shape in shapes for axis in shape.axes}
    for shape in shapes:
        if shape.below is not None and not shape.below.isdigit() and shape.below not in known:
            raise OperatorError(
                f"{where}: no input has the axis {shape.below!r}. Known are {', '.join(sorted(known))}."
            )
    return shapes


def _shape(where: str, text: str) -> InputShape:
    found = _RANGE.match(text)
    words = (found["axes"] if found else text).split()
    dtype = words.pop(0) if words and words[0] in fields.DTYPES else None
    if found is None or not all(word.isdigit() or word.isidentifier() for word in words):
        raise OperatorError(f"{where} is {text!r}, {EXPECTED}.")
    least, most = (None if found[name] is None else int(found[name]) for name in ("least", "most"))
    if least is not None and most is not None and least > most:
        raise OperatorError(f"{where} is {text!r}, which leaves no integer.")
    return InputShape(dtype, tuple(words), found["below"], least, most)


def extents(shapes: Sequence[InputShape], size: int) -> dict[str, int]:
    """Returns an extent for each named axis, so that the largest input has about ``size`` elements.

    The extents differ from each other, so that swapped axes show. In matrices the second varies with the size while the
    first stays: a kernel that was kept for a number of rows must not run for other columns.
    """
    names = list(dict.fromkeys(axis for shape in shapes for axis in shape.axes if not axis.isdigit()))
    rank = max((sum(not axis.isdigit() for axis in shape.axes) for shape in shapes), default=1)
    fixed = max((math.prod(int(axis) for axis in shape.axes if axis.isdigit()) for shape in shapes), default=1)
    base = max(1, round((size / max(fixed, 1)) ** (1 / max(rank, 1))))
    if rank < 2 or base == 1:
        return dict.fromkeys(names, base)
    found = {name: max(1, base + (place + 1) // 2 * (-1) ** place) for place, name in enumerate(names)}
    if rank == 2 and len(names) > 1 and size // base // max(fixed, 1) >= base:
        found[names[1]] = base + 2
    return found


def sample_of(shapes: Sequence[InputShape], dtype: str, size: int, seed: int, empty: str | None = None) -> Inputs:
    """Draws typical inputs of these shapes, in which the axis ``empty`` has no extent.

    Raises:
        ValueError: Indices must stay below the extent of the empty axis.
    """
    random, known = np.random.default_rng(seed), extents(shapes, size)
    known |= {} if empty is None else {empty: 0}
    return tuple(_drawn(shape, dtype, known, random) for shape in shapes)


def _drawn(shape: InputShape, dtype: str, known: dict[str, int], random: np.random.Generator) -> Array:
    extent = tuple(int(axis) if axis.isdigit() else known[axis] for axis in shape.axes)
    kind, count = np.dtype(shape.dtype or dtype), math.prod(extent)
    if kind.kind not in "iu":
        return values(kind.name, count, random).astype(kind).reshape(extent)
    least, end = (0, 100) if shape.most is None else (shape.least or 0, shape.most + 1)
    if shape.below is not None:
        end = int(shape.below) if shape.below.isdigit() else known[shape.below]
    return random.integers(least, end, count).astype(kind).reshape(extent)


def domain_of(shapes: Sequence[InputShape], index: int) -> Domain:
    """Returns the values that an input may take."""
    shape = shapes[index]
    if shape.below is None:
        return Domain(least=shape.least, most=shape.most)
    if shape.below.isdigit():
        return Domain(below=int(shape.below))
    place, axis = next(
        (i, other.axes.index(shape.below)) for i, other in enumerate(shapes) if shape.below in other.axes
    )
    return Domain(below=lambda *inputs: int(inputs[place].shape[axis]))


def example(count: int) -> str:
    """Returns a line to paste, for an operator of ``count`` inputs."""
    several = ['"m n"', '"n"', *['"m"'] * (count - 2)][:count]
    return f"shapes=({', '.join(several)}{',' if count == 1 else ''})"
