"""Adds checks to the kernel calls in a function, and in the functions that it calls, or removes such checks."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
from jax.extend.core import ClosedJaxpr, Jaxpr, Literal, jaxpr_as_fun

from bridge.debug.findings import Place
from bridge.debug.unwritten_elements import checked_kernel_call_p
from bridge.ffi.kernel_call import KERNEL_CALLS

Function = Callable[..., list[Any]]

Used = tuple[bool, ...] | None
"""Whether something uses each result of a function; None if that is not known."""

_PASSING_ON = frozenset({"jit", "pjit", "closed_call"})
"""Primitives whose results are the results of the function that they call."""


@dataclass(frozen=True)
class _Change:
    """What to change in the kernel calls of a program. Their own checks are removed.

    Attributes:
        place: The call that reports about unwritten elements are about; None to check no elements.
        on_copies: Whether the kernels get the inputs themselves, which are copies that may change.
    """

    place: Place | None = None
    on_copies: bool = False


def unchecked(function: Function) -> Function:
    """The function without the checks of the kernels that are called in it."""

    def run(*args: Any) -> list[Any]:
        closed = jax.make_jaxpr(function)(*args)
        plain = _rewritten(closed, _Change(), None)
        return function(*args) if plain is closed else list(map(jnp.asarray, jaxpr_as_fun(plain)(*args)))

    return run


def instrumented(function: Function, args: Sequence[Any], place: Place | None, on_copies: bool) -> Function:
    """The function with checks of the kernels that are called in it.

    Args:
        function: A function of arrays.
        args: Arrays of the types it will be called with.
        place: The call that a report about elements which no kernel writes is about; None to find no such elements.
        on_copies: Whether kernels may change the arrays of the function, which are copies made to find this.
    """
    closed = jax.make_jaxpr(function)(*args)
    rewritten: Function = jaxpr_as_fun(_rewritten(closed, _Change(place, on_copies), None))
    return rewritten


def _rewritten(closed: ClosedJaxpr, change: _Change, used: Used) -> ClosedJaxpr:
    """The program with changed kernel calls. The same object if nothing changes."""
    jaxpr = _jaxpr(closed.jaxpr, change, used)
    return closed if jaxpr is closed.jaxpr else closed.replace(jaxpr=jaxpr)


def _jaxpr(jaxpr: Jaxpr, change: _Change, used: Used) -> Jaxpr:
    results = jaxpr.outvars if used is None else itertools.compress(jaxpr.outvars, used)
    read = (*results, *(var for eqn in jaxpr.eqns for var in eqn.invars))
    variables = {var for var in read if not isinstance(var, Literal)}
    eqns = [_equation(eqn, change, tuple(var in variables for var in eqn.outvars)) for eqn in jaxpr.eqns]
    same = all(new is old for new, old in zip(eqns, jaxpr.eqns, strict=True))
    return jaxpr if same else jaxpr.replace(eqns=eqns)


def _equation(eqn: Any, change: _Change, used: tuple[bool, ...]) -> Any:
    if eqn.primitive in KERNEL_CALLS:
        call = eqn.params["call"]
        plain = call if call.checks is None else replace(call, checks=None)
        if change.on_copies and plain.guards:
            plain = plain.unguarded()
        if change.place is not None:
            params = {"call": replace(plain, whole=True), "used": used, "place": change.place}
            return eqn.replace(primitive=checked_kernel_call_p, params=params)
        return eqn if plain is call else eqn.replace(params={"call": plain})
    inside = used if eqn.primitive.name in _PASSING_ON else None
    params = {name: _parameter(value, change, inside) for name, value in eqn.params.items()}
    same = all(params[name] is value for name, value in eqn.params.items())
    return eqn if same else eqn.replace(params=params)


def _parameter(value: Any, change: _Change, used: Used) -> Any:
    if isinstance(value, ClosedJaxpr):
        return _rewritten(value, change, used)
    if isinstance(value, Jaxpr):
        return _jaxpr(value, change, used)
    if type(value) in (tuple, list):
        items = [_parameter(item, change, used) for item in value]
        same = all(new is old for new, old in zip(items, value, strict=True))
        return value if same else type(value)(items)
    return value
