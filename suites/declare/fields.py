"""Checks the values that authors declare, and converts them to one form: names to backends, sequences to tuples.

Each function takes ``where``: the operator and its field, with which an error begins. It raises an OperatorError that
names the expected value.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import jax
import numpy as np

from bridge.kernel.language import CPU_DTYPES
from suites.backends import BACKENDS, Backend
from suites.errors import OperatorError
from suites.numerics.precision import FLOAT8

DTYPES = (*CPU_DTYPES, FLOAT8)
"""Names of the dtypes that operators are declared for."""


def name(where: str, value: Any, also: str = "") -> str:
    """Returns a name that may be part of a test's id. The parts of an id are separated by ``-``.

    Args:
        where: The operator and its field.
        value: The name.
        also: Other characters that it may have.
    """
    if not isinstance(value, str) or not value:
        raise OperatorError(f"{where} is {value!r}, expected a name of letters, digits and _, such as 'my_name'.")
    unfit = rf"[^A-Za-z0-9_{re.escape(also)}]"
    if re.search(unfit, value):
        better = re.sub(unfit, "_", value).strip("_") or "my_name"
        raise OperatorError(
            f"{where} is {value!r}, expected letters, digits and {' '.join(('_', *also))} only, because it is part of "
            f"the ids of tests. Call it {better!r}."
        )
    return value


def function(where: str, value: Any, takes: str) -> Callable[..., Any]:
    """Returns ``value`` if it is a function.

    Args:
        where: The operator and its field.
        value: The function.
        takes: Its arguments, for the error.
    """
    if callable(value) and not isinstance(value, type):
        result: Callable[..., Any] = value
        return result
    raise OperatorError(f"{where} is {shown(value)}, expected a function of {takes}.")


def dtypes(where: str, value: Any) -> tuple[str, ...]:
    """Returns names of dtypes, each once, from several names or dtypes or from a single one."""
    several = value if isinstance(value, Sequence) and not isinstance(value, str) else (value,)
    names = tuple(_dtype(where, each) for each in several)
    return _each_once(where, names, "dtype")


def _dtype(where: str, value: Any) -> str:
    if isinstance(value, str):
        name = value
    else:
        try:
            name = np.dtype(value).name if value is not None else str(value)
        except TypeError:
            name = repr(value)
    if name in DTYPES:
        return name
    raise OperatorError(f"{where}: there is no dtype {name!r} here.{nearest(name, DTYPES)}")


def backend(where: str, value: Any) -> Backend:
    """Returns a backend, from the backend or its name."""
    if isinstance(value, Backend):
        return value
    by_id = {each.id: each for each in BACKENDS.values()}
    if isinstance(value, str) and value in by_id:
        return by_id[value]
    raise OperatorError(f"{where}: there is no backend {value!r}.{nearest(str(value).lower(), by_id)}")


def backends(where: str, value: Any) -> tuple[Backend, ...]:
    """Returns backends, each once, from several backends or names or from a single one."""
    several = (value,) if isinstance(value, str | Backend) else _sequence(where, value, "backends")
    return _each_once(where, tuple(backend(where, each) for each in several), "backend")


def by_backend(where: str, mapping: Any) -> dict[Backend, Any]:
    """Returns a dict by backend, from a mapping by backend or by name."""
    if not isinstance(mapping, Mapping):
        raise OperatorError(f"{where} is {shown(mapping)}, expected a dict by backend, such as {{'numba': ...}}.")
    values: dict[Backend, Any] = {}
    for key, value in mapping.items():
        member = backend(where, key)
        if member in values:
            raise OperatorError(f"{where} has {member.id!r} twice. Leave one of them out.")
        values[member] = value
    return values


def sizes(where: str, value: Any) -> tuple[int, ...]:
    """Returns nominal sizes, each once."""
    several = (value,) if isinstance(value, int | np.integer) else _sequence(where, value, "sizes")
    return _each_once(where, tuple(size(where, each) for each in several), "size")


def size(where: str, value: Any) -> int:
    """Returns a nominal size: a positive integer."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 1:
        raise OperatorError(f"{where}: got {value!r}, expected an integer from 1 on. Declare empty inputs as edges.")
    return int(value)


def _sequence(where: str, value: Any, of: str) -> tuple[Any, ...]:
    if isinstance(value, Mapping | str | bytes) or not isinstance(value, Iterable):
        raise OperatorError(f"{where} is {shown(value)}, expected a tuple of {of}.")
    return tuple(value)


def _each_once(where: str, several: tuple[Any, ...], what: str) -> tuple[Any, ...]:
    if not several:
        raise OperatorError(f"{where} is empty, expected at least one {what}.")
    for index, each in enumerate(several):
        if each in several[:index]:
            raise OperatorError(f"{where} has the {what} {str(each)!r} twice. Leave one of them out.")
    return several


def nearest(name: str, names: Iterable[str]) -> str:
    """Returns the end of an error about an unknown name: the most similar known name, and all known names."""
    near = difflib.get_close_matches(name, names, 1)
    return (f" Did you mean {near[0]!r}?" if near else "") + f" Known are {', '.join(names)}."


def shown(value: Any) -> str:
    """Returns the text of a value for an error: its repr, cut if it is long, and its type."""
    if isinstance(value, np.ndarray | jax.Array):
        return f"an array of {value.dtype}"
    text = repr(value)
    text = text if len(text) <= 60 else f"{text[:57]}..."
    return text if value is None else f"{text} (of type {type(value).__name__})"
