"""Adds checks to the kernel calls in a function, and in the functions that it calls, or removes such checks."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import replace
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


def unchecked(function: Function) -> Function:
    """The function without the checks of the kernels that are called in it."""

    def run(*args: Any) -> list[Any]:
        closed = jax.make_jaxpr(function)(*args)
        plain = _rewritten(closed, None, None)
        return function(*args) if plain is closed else list(map(jnp.asarray, jaxpr_as_fun(plain)(*args)))

    return run


def with_written_outputs(function: Function, args: Sequence[Any], place: Place) -> Function:
    """The function with checks: it also finds elements that the kernels called in it do not write.

    Args:
        function: A function of arrays.
        args: Arrays of the types it will be called with.
        place: The call that reports are about.
    """
    closed = jax.make_jaxpr(function)(*args)
    rewritten: Function = jaxpr_as_fun(_rewritten(closed, place, None))
    return rewritten


def _rewritten(closed: ClosedJaxpr, place: Place | None, used: Used) -> ClosedJaxpr:
    """The program with checked kernel calls, or plain ones if ``place`` is None. The same object if nothing changes."""
    jaxpr = _jaxpr(closed.jaxpr, place, used)
    return closed if jaxpr is closed.jaxpr else closed.replace(jaxpr=jaxpr)


def _jaxpr(jaxpr: Jaxpr, place: Place | None, used: Used) -> Jaxpr:
    results = jaxpr.outvars if used is None else itertools.compress(jaxpr.outvars, used)
    read = (*results, *(var for eqn in jaxpr.eqns for var in eqn.invars))
    variables = {var for var in read if not isinstance(var, Literal)}
    eqns = [_equation(eqn, place, tuple(var in variables for var in eqn.outvars)) for eqn in jaxpr.eqns]
    same = all(new is old for new, old in zip(eqns, jaxpr.eqns, strict=True))
    return jaxpr if same else jaxpr.replace(eqns=eqns)


def _equation(eqn: Any, place: Place | None, used: tuple[bool, ...]) -> Any:
    if eqn.primitive in KERNEL_CALLS:
        call = eqn.params["call"]
        plain = call if call.checks is None else replace(call, checks=None)
        if place is not None:
            params = {"call": replace(plain, whole=True), "used": used, "place": place}
            return eqn.replace(primitive=checked_kernel_call_p, params=params)
        return eqn if plain is call else eqn.replace(params={"call": plain})
    inside = used if eqn.primitive.name in _PASSING_ON else None
    params = {name: _parameter(value, place, inside) for name, value in eqn.params.items()}
    same = all(params[name] is value for name, value in eqn.params.items())
    return eqn if same else eqn.replace(params=params)


def _parameter(value: Any, place: Place | None, used: Used) -> Any:
    if isinstance(value, ClosedJaxpr):
        return _rewritten(value, place, used)
    if isinstance(value, Jaxpr):
        return _jaxpr(value, place, used)
    if type(value) in (tuple, list):
        items = [_parameter(item, place, used) for item in value]
        same = all(new is old for new, old in zip(items, value, strict=True))
        return value if same else type(value)(items)
    return value
