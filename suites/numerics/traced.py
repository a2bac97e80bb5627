"""Traces a reference to a jaxpr, and lists its operations, for all who ask what a reference computes."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import jax

from suites.numerics.arrays import Inputs, specs
from suites.numerics.precision import precision

_MOVES = {
    *("stop_gradient", "broadcast_in_dim", "convert_element_type", "reshape", "squeeze", "transpose", "copy", "copy_p"),
}
"""Primitives that compute nothing."""


def traced(reference: Callable[..., Any], inputs: Inputs) -> Any:
    """Returns the closed jaxpr of a reference for inputs of these shapes and dtypes.

    Raises:
        Exception: Whatever the reference raises; a ``JAXTypeError`` if it asks for the values of its inputs.
    """
    try:
        hash(reference)
    except TypeError:
        return _trace(reference, specs(inputs))
    return _trace_once(reference, specs(inputs))


def _trace(reference: Callable[..., Any], inputs: tuple[jax.ShapeDtypeStruct, ...]) -> Any:
    with precision(*(each.dtype for each in inputs)), jax.default_device(jax.local_devices(backend="cpu")[0]):
        # A new function each time, because JAX would keep the traces of a reference forever.
        return jax.make_jaxpr(lambda *arrays: reference(*arrays))(*inputs)


_trace_once = functools.lru_cache(maxsize=64)(_trace)


def equations(jaxpr: Any) -> Iterator[Any]:
    """Yields the equations of a jaxpr, and of the functions that it calls."""
    for equation in jaxpr.eqns:
        yield equation
        for inner in jaxprs(equation.params.values()):
            yield from equations(getattr(inner, "jaxpr", inner))


def jaxprs(values: Iterable[Any]) -> list[Any]:
    """Returns the jaxprs among the parameters of an equation."""
    flat = [each for value in values for each in (value if isinstance(value, tuple | list) else (value,))]
    return [each for each in flat if hasattr(each, "eqns") or hasattr(each, "jaxpr")]


def operations(reference: Callable[..., Any], inputs: Inputs) -> list[str]:
    """Returns the names of the primitives that a reference applies, in order; none if it cannot be traced."""
    try:
        found = equations(traced(reference, inputs).jaxpr)
        return [each.primitive.name for each in found if not jaxprs(each.params.values())]
    except Exception:  # from the reference
        return []


def formula(reference: Callable[..., Any], inputs: Inputs, most: int = 8) -> str:
    """Returns what a reference computes, in its order, such as ``add, add, div``."""
    names = [name.removeprefix("reduce_") for name in operations(reference, inputs) if name not in _MOVES]
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more
