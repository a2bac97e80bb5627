"""Collects the numbers in a reference and in the code of kernels, so that checks try them and their neighbours.

A threshold, a table's length or a magic number is where kernels differ from their reference. Numbers come from the
literals of the reference's jaxpr, from Python functions of kernels and what they call, and from CUDA sources.
"""

from __future__ import annotations

import functools
import re
import sysconfig
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jax.extend import core

from suites.backends.kernel import Kernel
from suites.declare.operator import Operator
from suites.numerics.arrays import Array
from suites.numerics.traced import equations, jaxprs, traced

MOST = 16
"""Constants of one operator that are tried."""

MOST_ELEMENTS = 64
"""Elements of an array up to which it counts as a table of constants."""

MOST_DEPTH = 8
"""How far calls from function to function are followed."""

_TRIVIAL = (0, 1, -1, 2)
_NUMBERS = re.compile(r"(?<![\w.])(0[xX][0-9a-fA-F]+|\d+\.\d*(?:[eE][+-]?\d+)?|\d+[eE][+-]?\d+|\d+)[uUlLfF]*(?![\w.])")


@functools.lru_cache(maxsize=64)
def constants(operator: Operator) -> tuple[float, ...]:
    """Returns the numbers in an operator's reference and in its kernels, without the trivial ones, in a fixed order."""
    found = [*_of_reference(operator)]
    for kernel in operator.kernels.values():
        found += _of_code(kernel, set(), 0)
    numbers = dict.fromkeys(each for each in found if each not in _TRIVIAL and abs(each) < 1e300)
    return tuple(numbers)[:MOST]


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
            near_floats += [each, np.nextafter(each, dtype.type(np.inf)), np.nextafter(each, dtype.type(-np.inf))]
            near_floats += [-each, np.asarray(value - 1).astype(dtype), np.asarray(value + 1).astype(dtype)]
            near_floats += [np.asarray(value / 2).astype(dtype)]
            if float(value).is_integer() and 2**23 <= value < 2**32 and dtype == np.float32:
                near_floats.append(np.asarray(int(value), np.uint32).view(np.float32))
    return np.array([each for each in near_floats if not np.isinf(each)], dtype)


def whole_constants(operator: Operator) -> list[int]:
    """Returns the constants that may be numbers of elements."""
    return [int(each) for each in constants(operator) if float(each).is_integer() and each > 2]


def _of_reference(operator: Operator) -> Iterator[float]:
    try:
        closed = traced(operator.reference, operator.sample(operator.dtypes[0], operator.sizes.check[0], 0))
    except Exception:  # a reference that cannot be traced
        return
    for equation in equations(closed.jaxpr):
        inner = [constant for each in jaxprs(equation.params.values()) for constant in getattr(each, "consts", ())]
        for value in (*inner, *(atom.val for atom in equation.invars if isinstance(atom, core.Literal))):
            yield from _of_value(value)
    for constant in closed.consts:
        yield from _of_value(constant)


def _of_value(value: Any) -> Iterator[float]:
    """Yields the real finite numbers of a scalar, a small array, or a tuple of them."""
    if isinstance(value, tuple | frozenset):
        for each in value:
            yield from _of_value(each)
    elif isinstance(value, bool | np.bool_):
        return
    elif isinstance(value, int):
        if abs(value) < 2**64:
            yield value
    elif isinstance(value, float | np.number | np.ndarray | jax.Array):
        array = np.asarray(value)
        if array.dtype.kind in "iuf" and array.size <= MOST_ELEMENTS:
            for each in array.reshape(-1).tolist():
                if np.isfinite(each):
                    yield each


def _of_code(thing: Any, seen: set[int], depth: int) -> Iterator[float]:
    """Yields the numbers in a kernel: in the Python functions that it holds or calls, and in texts of C++."""
    if id(thing) in seen or depth > MOST_DEPTH:
        return
    seen.add(id(thing))
    if isinstance(thing, str):
        if "{" in thing and ";" in thing:
            for match in _NUMBERS.findall(thing):
                yield int(match, 0) if re.fullmatch(r"0[xX].*|[1-9]\d*|0", match) else float(match)
        return
    if isinstance(thing, types.FunctionType):
        if not _is_library(thing):
            yield from _of_function(thing, seen, depth)
        return
    if isinstance(thing, types.CodeType):
        for each in thing.co_consts:
            yield from _of_code(each, seen, depth) if isinstance(each, types.CodeType) else _of_value(each)
        return
    for name in ("py_func", "func", "__wrapped__"):  # of Numba, of Warp and functools.partial, of decorators
        inner = getattr(thing, name, None)
        if isinstance(inner, types.FunctionType):
            yield from _of_code(inner, seen, depth + 1)
    if isinstance(thing, Kernel):
        for inner in vars(thing).values():
            yield from _of_code(inner, seen, depth + 1)


def _of_function(function: types.FunctionType, seen: set[int], depth: int) -> Iterator[float]:
    yield from _of_code(function.__code__, seen, depth)
    named = [function.__globals__.get(name) for name in function.__code__.co_names]
    cells = [cell.cell_contents for cell in function.__closure__ or ()]
    for each in [*named, *cells]:
        if callable(each) or isinstance(each, str):
            yield from _of_code(each, seen, depth + 1)
        else:
            yield from _of_value(each)


def _is_library(function: types.FunctionType) -> bool:
    path = Path(function.__code__.co_filename)
    return "site-packages" in path.parts or path.is_relative_to(sysconfig.get_path("stdlib"))
