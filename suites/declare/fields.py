"""Checks the values that authors declare, and brings them into one form: names to backends, sequences to tuples.

Each function takes ``where``: the operator and its field, with which an error begins. It raises an OperatorError that
says what was expected.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import jax
import numpy as np

from bridge.languages.language import CPU_DTYPES
from suites.backends import BACKENDS, Backend
from suites.errors import OperatorError

DTYPES = CPU_DTYPES
"""Names of the dtypes that operators are declared for."""


def name(where: str, given: Any, also: str = "") -> str:
    """Returns a name that may be part of a test's id. The parts of an id are separated by ``-``.

    Args:
        where: The operator and its field.
        given: The name.
        also: Other characters that it may have.
    """
    if not isinstance(given, str) or not given:
        raise OperatorError(f"{where} is {given!r}, expected a name of letters, digits and _, such as 'my_name'.")
    unfit = rf"[^A-Za-z0-9_{re.escape(also)}]"
    if re.search(unfit, given):
        better = re.sub(unfit, "_", given).strip("_") or "my_name"
        raise OperatorError(
            f"{where} is {given!r}, expected letters, digits and {' '.join(('_', *also))} only, because it is part of "
            f"the ids of tests. Call it {better!r}."
        )
    return given


def function(where: str, given: Any, takes: str) -> Callable[..., Any]:
    """Returns ``given`` if it is a function.

    Args:
        where: The operator and its field.
        given: The function.
        takes: Its arguments, for the error.
    """
    if callable(given) and not isinstance(given, type):
        result: Callable[..., Any] = given
        return result
    raise OperatorError(f"{where} is {shown(given)}, expected a function of {takes}.")


def dtypes(where: str, given: Any) -> tuple[str, ...]:
    """Returns names of dtypes, each once, from several names or dtypes or from a single one."""
    several = given if isinstance(given, Sequence) and not isinstance(given, str) else (given,)
    names = tuple(_dtype(where, each) for each in several)
    return _each_once(where, names, "dtype")


def _dtype(where: str, given: Any) -> str:
    if isinstance(given, str):
        found = given
    else:
        try:
            found = np.dtype(given).name if given is not None else str(given)
        except TypeError:
            found = repr(given)
    if found in DTYPES:
        return found
    raise OperatorError(f"{where}: there is no dtype {found!r} here.{nearest(found, DTYPES)}")


def backend(where: str, given: Any) -> Backend:
    """Returns a backend, from the backend or its name."""
    if isinstance(given, Backend):
        return given
    known = {each.id: each for each in BACKENDS.values()}
    if isinstance(given, str) and given in known:
        return known[given]
    raise OperatorError(f"{where}: there is no backend {given!r}.{nearest(str(given).lower(), known)}")


def backends(where: str, given: Any) -> tuple[Backend, ...]:
    """Returns backends, each once, from several backends or names or from a single one."""
    several = (given,) if isinstance(given, str | Backend) else _sequence(where, given, "backends")
    return _each_once(where, tuple(backend(where, each) for each in several), "backend")


def by_backend(where: str, given: Any) -> dict[Backend, Any]:
    """Returns a dict by backend, from a mapping by backend or by name."""
    if not isinstance(given, Mapping):
        raise OperatorError(f"{where} is {shown(given)}, expected a dict by backend, such as {{'numba': ...}}.")
    found: dict[Backend, Any] = {}
    for key, value in given.items():
        member = backend(where, key)
        if member in found:
            raise OperatorError(f"{where} has {member.id!r} twice. Leave one of them out.")
        found[member] = value
    return found


def sizes(where: str, given: Any) -> tuple[int, ...]:
    """Returns nominal sizes, each once."""
    several = (given,) if isinstance(given, int | np.integer) else _sequence(where, given, "sizes")
    return _each_once(where, tuple(size(where, each) for each in several), "size")


def size(where: str, given: Any) -> int:
    """Returns a nominal size: a positive integer."""
    if isinstance(given, bool) or not isinstance(given, int | np.integer) or given < 1:
        raise OperatorError(f"{where}: got {given!r}, expected an integer from 1 on. Declare empty inputs as edges.")
    return int(given)


def _sequence(where: str, given: Any, of: str) -> tuple[Any, ...]:
    if isinstance(given, Mapping | str | bytes) or not isinstance(given, Iterable):
        raise OperatorError(f"{where} is {shown(given)}, expected a tuple of {of}.")
    return tuple(given)


def _each_once(where: str, several: tuple[Any, ...], what: str) -> tuple[Any, ...]:
    if not several:
        raise OperatorError(f"{where} is empty, expected at least one {what}.")
    for place, each in enumerate(several):
        if each in several[:place]:
            raise OperatorError(f"{where} has the {what} {str(each)!r} twice. Leave one of them out.")
    return several


def nearest(given: str, known: Iterable[str]) -> str:
    """The end of an error about an unknown name: the known name most like it, and all known names."""
    near = difflib.get_close_matches(given, known, 1)
    return (f" Did you mean {near[0]!r}?" if near else "") + f" Known are {', '.join(known)}."


def shown(value: Any) -> str:
    """Returns a value as an error shows it: its text, cut if it is long, and its type."""
    if isinstance(value, np.ndarray | jax.Array):
        return f"an array of {value.dtype}"
    text = repr(value)
    text = text if len(text) <= 60 else f"{text[:57]}..."
    return text if value is None else f"{text} (of type {type(value).__name__})"
