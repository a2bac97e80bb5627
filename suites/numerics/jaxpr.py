"""Traces a reference to a jaxpr, and names its operations and the elements that they leave undefined.

IEEE 754 defines the sign of a zero that negation, a product, a quotient or a copy returns. It does not define which
zero is larger, so a maximum of both, or a choice by a comparison, may have either sign. The sign of a sum depends on
the order of its terms: ``-(y - x)`` is -0.0 where ``x - y`` is 0.0. So it is defined only for one sum of two inputs.

Languages define some integers differently, such as a quotient by zero. So a reference also runs with other integers in
these cases. A result that changes depends on such an integer, and has no right value.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend import core

from suites.numerics.arrays import Inputs, specs
from suites.numerics.precision import needs_x64

MOVES = {
    *("stop_gradient", "broadcast_in_dim", "convert_element_type", "reshape", "squeeze", "transpose", "copy", "copy_p"),
}
"""Primitives that only move or convert elements."""


def jaxpr_of(reference: Callable[..., Any], inputs: Inputs, *, in_double: bool = False) -> Any:
    """Returns the closed jaxpr of a reference for inputs of these shapes and dtypes.

    Args:
        reference: The reference.
        inputs: The inputs.
        in_double: Whether JAX's x64 mode is on even if no input needs it.

    Raises:
        Exception: The reference raised it; a ``JAXTypeError`` if it needs the values of its inputs.
    """
    try:
        hash(reference)
    except TypeError:
        return _trace(reference, specs(inputs), in_double)
    return _trace_once(reference, specs(inputs), in_double)


def _trace(reference: Callable[..., Any], inputs: tuple[jax.ShapeDtypeStruct, ...], in_double: bool) -> Any:
    x64 = in_double or needs_x64(*(each.dtype for each in inputs))
    with jax.enable_x64(x64), jax.default_device(jax.local_devices(backend="cpu")[0]):
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


CALLS = {
    *("jit", "pjit", "closed_call", "core_call", "checkpoint", "remat", "remat2", "composite", "custom_lin"),
    *("custom_jvp_call", "custom_vjp_call", "custom_vjp_call_jaxpr"),
}
"""Primitives that only call a function."""


def _identity(value: Any, like: Any = None) -> Any:
    return value


def callee(params: Mapping[str, Any]) -> Any:
    """Returns the jaxpr that an equation of :data:`CALLS` calls."""
    return next(params[key] for key in ("jaxpr", "call_jaxpr", "fun_jaxpr") if key in params)


def evaluate(
    jaxpr: Any, arguments: Sequence[Any], apply: Callable[..., list[Any]], constant: Callable[..., Any] = _identity
) -> list[Any]:
    """Returns the results of a jaxpr. Each intermediate result is dropped after its last use, because it may be large.

    Args:
        jaxpr: The jaxpr, with or without its constants.
        arguments: Its arguments, of any type that ``apply`` takes.
        apply: Takes an equation and its operands. Returns the results.
        constant: Takes a constant and, if it is a literal, something with its dtype. Returns the operand.
    """
    consts, jaxpr = getattr(jaxpr, "consts", ()), getattr(jaxpr, "jaxpr", jaxpr)
    values = dict(zip(jaxpr.invars, arguments, strict=True))
    values |= {variable: constant(value) for variable, value in zip(jaxpr.constvars, consts, strict=True)}
    last = {variable: index for index, equation in enumerate(jaxpr.eqns) for variable in _variables(equation.invars)}
    last |= dict.fromkeys(_variables(jaxpr.outvars), -1)  # a result is kept

    def read(atom: Any) -> Any:
        return constant(atom.val, atom.aval) if isinstance(atom, core.Literal) else values[atom]

    for index, equation in enumerate(jaxpr.eqns):
        if not any(variable in last for variable in equation.outvars):  # nothing uses its results
            continue
        results = apply(equation, [read(atom) for atom in equation.invars])
        values.update(zip(equation.outvars, results, strict=True))
        for variable in _variables(equation.invars):
            if last[variable] == index:
                values.pop(variable, None)
    return [read(atom) for atom in jaxpr.outvars]


def _variables(atoms: Sequence[Any]) -> list[Any]:
    return [atom for atom in atoms if not isinstance(atom, core.Literal)]


def operations(reference: Callable[..., Any], inputs: Inputs) -> list[str]:
    """Returns the names of the primitives that a reference applies, in order; none if it cannot be traced."""
    try:
        called = equations(jaxpr_of(reference, inputs).jaxpr)
        return [each.primitive.name for each in called if not jaxprs(each.params.values())]
    except Exception:  # from the reference
        return []


def has_constants(reference: Callable[..., Any], inputs: Inputs) -> bool:
    """Tells whether a reference has constants that are not whole numbers, such as a table of cosines."""
    closed = jaxpr_of(reference, inputs)
    literals = [a.val for each in equations(closed.jaxpr) for a in each.invars if isinstance(a, core.Literal)]
    arrays = [np.asarray(value) for value in (*closed.consts, *literals)]
    return any(array.dtype.kind == "f" and (np.trunc(array) != array).any() for array in arrays)


_DEFINED = {
    *("neg", "mul", "div", "copy", "copy_p", "convert_element_type", "stop_gradient"),
    *("reshape", "transpose", "rev", "squeeze", "expand_dims", "broadcast_in_dim", "concatenate", "slice"),
}
"""Primitives that define the sign of a zero."""


def keeps_zero_signs(reference: Callable[..., Any], inputs: Inputs) -> bool:
    """Returns whether all operations of a reference define the signs of zeros."""
    names = operations(reference, inputs)
    return names == ["add"] or set(names) <= _DEFINED


_OTHER_BITS = 0x55
"""The bits in which an undefined integer is changed."""

_SHIFTS = ("shift_left", "shift_right_logical", "shift_right_arithmetic")
_UNDEFINED = {"div", "rem", "convert_element_type", *_SHIFTS}


def may_be_undefined(reference: Callable[..., Any], inputs: Inputs) -> bool:
    """Tells whether a reference has an operation on integers that languages define in different ways."""
    return not _UNDEFINED.isdisjoint(operations(reference, inputs))


_OF_WIDTH = {"shift_right_logical", "clz", "population_count", "bitcast_convert_type"}


def depends_on_width(reference: Callable[..., Any], inputs: Inputs) -> bool:
    """Tells whether a reference has an operation or a number that would differ with integers of 32 bits."""
    for equation in equations(jaxpr_of(reference, inputs).jaxpr):
        if equation.primitive.name in _OF_WIDTH and equation.invars[0].aval.dtype.kind == "i":
            return True
        numbers = [np.asarray(atom.val) for atom in equation.invars if isinstance(atom, core.Literal)]
        if any(each.dtype == np.int64 and abs(int(each)) > 2**31 for each in numbers):
            return True
    return False


def with_other_integers(reference: Callable[..., Any]) -> Callable[..., list[jax.Array]]:
    """Returns a compiled function of arrays that gives the results of a reference as a list.

    Its results differ from the reference where they depend on an integer that each language defines in its own way: a
    quotient by zero, a shift by too many bits, a float beyond the integers.
    """

    @jax.jit
    def changed(*inputs: jax.Array) -> list[jax.Array]:
        closed = jax.make_jaxpr(lambda *arrays: jax.tree.leaves(reference(*arrays)))(*inputs)
        return evaluate(closed, inputs, _apply)

    return changed


def _apply(equation: Any, operands: Sequence[Any]) -> list[Any]:
    primitive, params = equation.primitive, equation.params
    if primitive.name in CALLS:
        return evaluate(callee(params), operands, _apply)
    bind_params = primitive.get_bind_params(params)  # older releases of JAX also return functions
    functions, bound = bind_params if isinstance(bind_params, tuple) else ((), bind_params)
    result = primitive.bind(*functions, *operands, **bound)
    if primitive.multiple_results:
        return list(result)
    undefined = _undefined(primitive.name, operands, result)
    return [result if undefined is None else jnp.where(undefined, result ^ _OTHER_BITS, result)]


def _undefined(name: str, operands: Sequence[Any], result: Any) -> Any:
    """Returns where languages define an integer result differently; None if all define the operation alike."""
    if not jnp.issubdtype(result.dtype, jnp.integer):
        return None
    info = np.iinfo(result.dtype)
    if name in ("div", "rem"):
        return operands[1] == 0
    if name in _SHIFTS:
        return (operands[1] < 0) | (operands[1] >= info.bits)
    if name == "convert_element_type" and jnp.issubdtype(operands[0].dtype, jnp.floating):
        x = operands[0].astype(jnp.result_type(float))
        return ~((x > float(info.min) - 1) & (x < float(info.max)))
    return None
