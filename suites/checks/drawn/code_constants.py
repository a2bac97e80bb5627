"""Finds the numbers in a reference and in the code of kernels, which are drawn with their neighbours.

Kernels often differ from their reference at a threshold, the length of a table or a magic number. So literals are taken
of the reference's jaxpr, of Python functions and the functions that they call, and of CUDA sources.
"""

from __future__ import annotations

import functools
import re
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jax.extend import core

from suites.checks.judging.reasons import is_library
from suites.declare.operator import Operator
from suites.kernels.kernel import Kernel
from suites.numerics.arrays import Array, kind_of
from suites.numerics.error_model import finfo
from suites.numerics.jaxpr import equations, jaxpr_of, jaxprs

MOST = 16
"""Most constants of one operator that are tried."""

MOST_ELEMENTS = 64
"""Most elements of an array that counts as a table of constants."""

MOST_DEPTH = 8
"""Most calls, from function to function, that the search for constants follows."""

_TRIVIAL = (0, 1, -1, 2)
_NUMBERS = re.compile(r"(?<![\w.])(0[xX][0-9a-fA-F]+|\d+\.\d*(?:[eE][+-]?\d+)?|\d+[eE][+-]?\d+|\d+)[uUlLfF]*(?![\w.])")


@functools.lru_cache(maxsize=64)
def constants(operator: Operator) -> tuple[float, ...]:
    """Returns the numbers in an operator's reference and in its kernels, without the trivial ones, in a fixed order."""
    seen: set[int] = set()
    numbers = [*_of_reference(operator)]
    for kernel in operator.kernels.values():
        numbers += _of_code(kernel, seen)
    unique = dict.fromkeys(each for each in numbers if each not in _TRIVIAL and abs(each) < 1e300)
    return tuple(unique)[:MOST]


def around(values: tuple[float, ...], dtype: np.dtype[Any]) -> Array:
    """Returns the constants and their neighbours in a dtype: the next numbers, one less and one more, and negatives."""
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        near = [each + step for value in values for each in (int(value), -int(value)) for step in (0, -1, 1)]
        return np.array(list(dict.fromkeys(each for each in near if info.min <= each <= info.max)), dtype)
    near_floats: list[Any] = []
    with np.errstate(all="ignore"):
        for value in values:
            each = np.asarray(value, np.float64).astype(dtype)
            ends = dtype.type(finfo(dtype).max), -dtype.type(finfo(dtype).max)
            near_floats += [each, *(np.nextafter(each, end) for end in ends)]
            near_floats += [-each, np.asarray(value - 1).astype(dtype), np.asarray(value + 1).astype(dtype)]
            near_floats += [np.asarray(value / 2).astype(dtype)]
            if float(value).is_integer() and 2**23 <= value < 2**32 and dtype == np.float32:
                near_floats.append(np.asarray(int(value), np.uint32).view(np.float32))
    return np.array([each for each in near_floats if np.isfinite(each)], dtype)


def whole_constants(operator: Operator) -> list[int]:
    """Returns the constants that may be numbers of elements."""
    return [int(each) for each in constants(operator) if float(each).is_integer() and each > 2]


def _of_reference(operator: Operator) -> Iterator[float]:
    try:
        closed = jaxpr_of(operator.reference, operator.sample(operator.dtypes[0], operator.sizes.check[0], 0))
    except Exception:  # a reference that cannot be traced
        return
    values = []
    for equation in equations(closed.jaxpr):
        values += [constant for each in jaxprs(equation.params.values()) for constant in getattr(each, "consts", ())]
        values += [atom.val for atom in equation.invars if isinstance(atom, core.Literal)]
    yield from _of_value((*values, *closed.consts))


def _of_value(value: Any) -> Iterator[float]:
    """Yields the real finite numbers of a scalar, a small array, or a tuple of them."""
    if isinstance(value, tuple | frozenset):
        for each in value:
            yield from _of_value(each)
    elif isinstance(value, int | float | np.number | np.ndarray | jax.Array):
        array = np.asarray(value)
        if kind_of(array.dtype) in "iuf" and array.size <= MOST_ELEMENTS:
            for each in array.reshape(-1).tolist():
                if np.isfinite(each):
                    yield each


def _of_code(thing: Any, seen: set[int], depth: int = 0) -> Iterator[float]:
    """Yields the numbers in a kernel: in the Python functions that it holds or calls, and in texts of C++."""
    if id(thing) in seen or depth > MOST_DEPTH:
        return
    seen.add(id(thing))
    inner: list[Any] = []
    if isinstance(thing, str):
        for match in _NUMBERS.findall(thing) if "{" in thing and ";" in thing else ():
            yield int(match, 0) if re.fullmatch(r"0[xX].*|[1-9]\d*|0", match) else float(match)
    elif isinstance(thing, types.FunctionType):
        if not is_library(Path(thing.__code__.co_filename)):
            named = [thing.__globals__.get(name) for name in thing.__code__.co_names]
            inner = [thing.__code__, *named, *(cell.cell_contents for cell in thing.__closure__ or ())]
    elif isinstance(thing, types.CodeType):
        inner = list(thing.co_consts)
    elif isinstance(thing, Kernel):
        inner = list(vars(thing).values())
    elif callable(thing):  # of Numba, of Warp and functools.partial, of decorators
        inner = [getattr(thing, name, None) for name in ("py_func", "func", "__wrapped__")]
        inner = [each for each in inner if isinstance(each, types.FunctionType)]
    else:
        yield from _of_value(thing)
    for each in inner:
        yield from _of_code(each, seen, depth + 1)
