"""Reads declared shapes such as ``("m n", "n")``, and draws samples of them, for operators without a ``sample``.

Each input has a text: the names of its axes, or their extents. Axes of one name have one extent. A dtype may stand
before the axes, if it is not the tested one, and a range of integers after them::

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
        below: The axis, or the number, below which its integers stay; None without such a limit.
        least: Its least integer; None without a limit.
        most: Its largest integer; None without a limit.
    """

    dtype: str | None
    axes: tuple[str, ...]
    below: str | None = None
    least: int | None = None
    most: int | None = None


def shapes_of(where: str, value: Any) -> tuple[InputShape, ...]:
    """Returns the shapes that an author declares, one text for each input.

    Raises:
        OperatorError: A text is no shape; the message says which.
    """
    several = (value,) if isinstance(value, str) else value
    if not isinstance(several, Sequence) or not several or not all(isinstance(each, str) for each in several):
        raise OperatorError(f"{where} is {value!r}, expected a text for each input, such as ('m n', 'n').")
    shapes = tuple(_shape(f"{where}[{index}]", each) for index, each in enumerate(several))
    axes = {axis for shape in shapes for axis in shape.axes}
    for shape in shapes:
        if shape.below is not None and not shape.below.isdigit() and shape.below not in axes:
            raise OperatorError(f"{where}: no input has the axis {shape.below!r}. Known are {', '.join(sorted(axes))}.")
    return shapes


def _shape(where: str, text: str) -> InputShape:
    match = _RANGE.match(text)
    words = (match["axes"] if match else text).split()
    dtype = words.pop(0) if words and words[0] in fields.DTYPES else None
    if match is None or not all(word.isdigit() or word.isidentifier() for word in words):
        raise OperatorError(f"{where} is {text!r}, {EXPECTED}.")
    least, most = (None if match[name] is None else int(match[name]) for name in ("least", "most"))
    if least is not None and most is not None and least > most:
        raise OperatorError(f"{where} is {text!r}, which leaves no integer.")
    return InputShape(dtype, tuple(words), match["below"], least, most)


def extents(shapes: Sequence[InputShape], size: int) -> dict[str, int]:
    """Returns an extent for each named axis, so that the largest input has about ``size`` elements.

    The extents differ from each other, so that swapped axes give an error. In matrices the second extent also varies
    while the first stays, to find kernels that are cached by the number of rows.
    """
    names = list(dict.fromkeys(axis for shape in shapes for axis in shape.axes if not axis.isdigit()))
    rank = max((sum(not axis.isdigit() for axis in shape.axes) for shape in shapes), default=1)
    fixed = max((math.prod(int(axis) for axis in shape.axes if axis.isdigit()) for shape in shapes), default=1)
    base = max(1, round((size / max(fixed, 1)) ** (1 / max(rank, 1))))
    if rank < 2 or base == 1:
        return dict.fromkeys(names, base)
    by_axis = {name: max(1, base + (index + 1) // 2 * (-1) ** index) for index, name in enumerate(names)}
    if rank == 2 and len(names) > 1 and size // base // max(fixed, 1) >= base:
        by_axis[names[1]] = base + 2
    return by_axis


def sample_of(shapes: Sequence[InputShape], dtype: str, size: int, seed: int, empty: str | None = None) -> Inputs:
    """Draws typical inputs of these shapes, in which the axis ``empty`` has no extent.

    Raises:
        ValueError: Indices must stay below the extent of the empty axis.
    """
    random, by_axis = np.random.default_rng(seed), extents(shapes, size)
    by_axis |= {} if empty is None else {empty: 0}
    return tuple(_drawn(shape, dtype, by_axis, random) for shape in shapes)


def _drawn(shape: InputShape, dtype: str, extent_of: dict[str, int], random: np.random.Generator) -> Array:
    extent = tuple(int(axis) if axis.isdigit() else extent_of[axis] for axis in shape.axes)
    kind, count = np.dtype(shape.dtype or dtype), math.prod(extent)
    if kind.kind not in "iu":
        return values(kind.name, count, random).astype(kind).reshape(extent)
    least, end = (0, 100) if shape.most is None else (shape.least or 0, shape.most + 1)
    if shape.below is not None:
        end = int(shape.below) if shape.below.isdigit() else extent_of[shape.below]
    return random.integers(least, end, count).astype(kind).reshape(extent)


def domain_of(shapes: Sequence[InputShape], index: int) -> Domain:
    """Returns the values that an input may take."""
    shape = shapes[index]
    if shape.below is None:
        return Domain(least=shape.least, most=shape.most)
    if shape.below.isdigit():
        return Domain(below=int(shape.below))
    input_index, axis = next(
        (i, other.axes.index(shape.below)) for i, other in enumerate(shapes) if shape.below in other.axes
    )
    return Domain(below=lambda *inputs: int(inputs[input_index].shape[axis]))


def example(count: int) -> str:
    """Returns a line to paste, for an operator of ``count`` inputs."""
    several = ['"m n"', '"n"', *['"m"'] * (count - 2)][:count]
    return f"shapes=({', '.join(several)}{',' if count == 1 else ''})"
