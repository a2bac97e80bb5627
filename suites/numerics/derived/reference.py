"""Derives truth and error bounds from a reference, for operators without a declared ``truth``.

The reference is traced in the tested dtypes to a jaxpr. The jaxpr is then evaluated operation by operation on estimates
(:mod:`suites.numerics.derived.estimate`): a true value in a wide type, with a bound on the error of any kernel that
computes the same function in the tested dtypes. The bound holds for every order of sums and products.

Long loops, primitives without a rule and arrays of very many elements have no derived bound. They get the tolerance
that :func:`suites.derived_truth` documents. Their truth is the values of the rules, without the errors. It is not
computed by XLA, whose threads flush subnormal numbers to zero, while a GPU does not: comparisons would differ.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from suites.numerics.arrays import Array
from suites.numerics.derived import moves, rules, sums
from suites.numerics.derived.estimate import (
    Estimate,
    Underivable,
    by_jax,
    in_double,
    joined,
    number_steps,
    of_constant,
    of_input,
)
from suites.numerics.error_model import WIDE, Expected, Truth, exact, finfo
from suites.numerics.jaxpr import CALLS, callee, evaluate, jaxpr_of, jaxprs
from suites.numerics.precision import needs_x64

MOST_APPLIED = 128
"""Most operations, in all steps, of a loop with a derived bound: Python takes thousands of times as long as XLA."""

MOST_ELEMENTS = 1 << 28
"""Most elements of all results in a reference with a derived bound: they take a minute and a few GiB."""

PRODUCTS = 512
"""Products in matrices that take as long as another element: a product of 4096 x 4096 float64 takes half a minute."""

MOST_BY_NUMPY = 1 << 20
"""Most elements of all results if NumPy computes a truth without a bound: they take a second."""

GROWTH = 1024
"""Largest ``S`` of a value that a loop carries, relative to the largest value that it has carried so far."""

TOLERANCE = {"float16": 32, "bfloat16": 32, **dict.fromkeys(("float32", "float64", "complex64", "complex128"), 1024)}
"""Default tolerances, in units of u: 1.6e-2 for float16, 1.2e-1 for bfloat16, 6.1e-5 for float32, 1.1e-13 for float64.
"""

Reference = Callable[..., Any]
Arrays = tuple[Array, ...]


def derived_truth(
    reference: Reference, inputs: Arrays, tolerance: float | None = None, *, keeps_unknown: bool = False
) -> Truth:
    """Returns the true results of a reference, with the largest error of any reasonable kernel.

    The error of an element has three parts. If the operands of an operation ``f`` have the errors ``b_i``, its result
    has the error ``sum |df/dx_i| b_i + C u |f|``, with ``C`` from :mod:`suites.numerics.derived.functions`. The n
    additions and multiplications of an expression add ``(n - 1) u S``, because a kernel may make them in another order;
    ``S`` is the expression with absolute values. A sum of k terms has the error of
    :mod:`suites.numerics.error_model`. There is no error where no order rounds anything
    (:mod:`suites.numerics.quanta`).

    Integers and booleans are exact. If one depends on a rounded number whose distance from a threshold is within its
    error, both values are accepted. Where some order overflows, infinity and NaN are accepted too. If an element is
    unknown, for example because a divisor may be zero, its margin is infinite, and the judge leaves it out.

    If no bound can be derived, or with ``tolerance``, truth is the reference on inputs that are widened to float64.
    The accepted error of an element is then ``tolerance * (|truth| + max |truth|)``, with the largest finite result of
    that output. The default tolerance is 1024 u for float32 and float64, 32 u for float16 and bfloat16.

    Args:
        reference: A function of arrays that returns an array or a pytree of arrays, written with ``jax.numpy``.
        inputs: Its arguments, in the tested dtypes.
        tolerance: Used instead of a derived bound.
        keeps_unknown: Whether elements may have infinite bounds, for a judge that leaves such elements out. If not, one
            integer with an infinite bound makes all elements get the tolerance.

    Raises:
        TypeError: An output has a dtype that cannot be judged, such as float8.

    Source: Higham, Accuracy and Stability of Numerical Algorithms, 2nd ed., chapters 3 and 4.
    """
    if tolerance is None:
        try:
            return Truth(_derived(reference, inputs, keeps_unknown=keeps_unknown))
        except Underivable:
            pass
    return Truth(_with_tolerance(reference, inputs, tolerance))


def explain_truth(reference: Reference, inputs: Arrays) -> str:
    """Returns whether a bound is derived for these inputs, or why a tolerance is used, as text."""
    try:
        outputs = _derived(reference, inputs)
    except Underivable as reason:
        for expected in _with_tolerance(reference, inputs, None):
            if expected.dtype in WIDE:
                tolerance = f"{_default(expected.dtype):.1e}".replace("e-0", "e-")
                return f"tolerance {tolerance} of the largest result, because {reason}"
        return f"equal to the reference bit for bit, because {reason}"
    unknown = sum(int(np.isinf(each.margin).sum()) for each in outputs if each.margin is not None)
    several = sum(each.value.size for each in outputs)
    return f"derived bound, but none for {unknown} of {several} elements" if unknown else "derived bound"


def _derived(reference: Reference, inputs: Arrays, *, keeps_unknown: bool = False) -> tuple[Expected, ...]:
    try:
        closed = jaxpr_of(reference, inputs)
    except jax.errors.JAXTypeError as error:
        raise Underivable(f"the reference cannot be traced ({type(error).__name__})") from error
    if elements(closed.jaxpr, PRODUCTS) > MOST_ELEMENTS:
        raise Underivable(f"the reference computes more than {MOST_ELEMENTS} elements")
    number_steps()
    with np.errstate(all="ignore"):
        results = _inside(_by_rule, closed, [of_input(array) for array in inputs])
        return tuple(_expected(index, result, keeps_unknown) for index, result in enumerate(results))


def _expected(index: int, result: Estimate, keeps_unknown: bool) -> Expected:
    if result.error is None or not result.error.any():
        if not result.is_float:
            return exact(result.value)
        return Expected(result.value, result.dtype, np.zeros(result.value.shape), overflows=_overflows(result))
    if not keeps_unknown and not result.is_float and np.isinf(result.error).any():
        where = [int(i) for i in np.unravel_index(np.argmax(np.isinf(result.error)), result.error.shape)]
        raise Underivable(f"the bound of output {index}{where} is infinite")
    # An unknown element may have any truth: a divisor that is zero here need not be zero in a kernel.
    lost = np.isinf(result.error) & ~np.isfinite(result.value)
    value = np.where(lost, 0, result.value).astype(result.value.dtype) if lost.any() else result.value
    return Expected(value, result.dtype, result.error, overflows=_overflows(result))


def _overflows(result: Estimate) -> Array | None:
    if result.size is None or not result.is_float:
        return None
    mask = np.isinf(result.size) & np.isfinite(result.value)
    return mask if mask.any() else None


def elements(jaxpr: Any, products: int = 1) -> int:
    """Returns how many elements all operations of a jaxpr compute; so many products in matrices count as one."""
    total = 0
    for equation in jaxpr.eqns:
        own = sum(math.prod(variable.aval.shape) for variable in equation.outvars)
        if equation.primitive.name == "dot_general":
            ((contracted, _), _) = equation.params["dimension_numbers"]
            depth = math.prod(equation.invars[0].aval.shape[axis] for axis in contracted)
            own = own * depth // products
        inner = [elements(getattr(each, "jaxpr", each), products) for each in jaxprs(equation.params.values())]
        total += own + int(equation.params.get("length", 1) or 1) * sum(inner)
    return total


def _apply(by_rule: ByRule, equation: Any, operands: list[Estimate]) -> list[Estimate]:
    """Returns the results of one equation; ``by_rule`` computes them if it calls no function."""
    primitive, params = equation.primitive, equation.params
    outs = [variable.aval for variable in equation.outvars]
    if primitive.name in CALLS:
        return _inside(by_rule, callee(params), operands)
    if primitive.name == "cond":
        which, *rest = operands
        if which.error is not None and which.error.any():
            raise Underivable("a branch of `cond` depends on a rounded number")
        branches = params["branches"]
        return _inside(by_rule, branches[int(np.clip(int(which.value), 0, len(branches) - 1))], rest)
    if primitive.name == "platform_index":
        names = params["platforms"]
        index = next(i for i, those in enumerate(names) if those is None or "cpu" in those)
        return [Estimate(np.asarray(index, outs[0].dtype), None, outs[0].dtype)]
    if primitive.name == "scan":
        try:
            return _scan(by_rule, params, operands)
        except Underivable:
            if by_rule is not _by_value:
                raise
    return _with_overflows(operands, by_rule(equation, operands, outs))


def _with_overflows(operands: list[Estimate], results: list[Estimate]) -> list[Estimate]:
    """Returns the results with an infinite size where an operand may overflow in a kernel, which makes them unknown.

    Results with a size or steps are unchanged: their rules do this.
    """
    masks = [each for each in (operand.overflows for operand in operands) if each is not None]
    if not masks:
        return results
    marked = []
    for result in results:
        if not result.is_float or result.size is not None or result.steps:
            marked.append(result)
            continue
        where = np.zeros(result.value.shape, bool)
        for each in masks:
            where = where | (each if each.shape == where.shape else each.any())
        size = np.where(where & np.isfinite(result.value), np.inf, np.abs(result.value))
        marked.append(dataclasses.replace(result, size=size))
    return marked


def _by_rule(equation: Any, operands: list[Estimate], outs: list[Any]) -> list[Estimate]:
    primitive, params = equation.primitive, equation.params
    for out in outs:
        if jnp.issubdtype(out.dtype, jax.dtypes.extended):
            raise Underivable(f"no bound is derived for numbers of type {out.dtype}")
    if any(np.dtype(each.dtype).kind == "c" for each in (*outs, *operands)):
        raise Underivable("no bound is derived for complex numbers")
    if primitive.name == "iota" or (_only_exact_integers(operands, outs) and primitive.name not in _FOR_INTEGERS):
        results = by_jax(primitive, [operand.value for operand in operands], params)
        return [of_input(result) for result in results]
    if primitive.name in moves.SOURCES:
        return moves.by_positions(primitive, operands, params)
    rule = _RULES.get(primitive.name)
    if rule is None:
        raise Underivable(f"no bound is derived through `{primitive.name}`")
    return rule(operands, params, outs)


_RULES = rules.RULES | sums.RULES | moves.RULES

_FOR_INTEGERS = rules.FOR_INTEGERS | moves.FOR_INTEGERS


def _only_exact_integers(operands: list[Estimate], outs: list[Any]) -> bool:
    """Tells whether JAX itself can compute the result: it wraps, shifts and divides exact integers like kernels."""
    return all(np.dtype(out.dtype).kind in "iub" for out in outs) and not any(
        operand.is_float or operand.error is not None for operand in operands
    )


ByRule = Callable[[Any, list[Estimate], list[Any]], list[Estimate]]


def _inside(by_rule: ByRule, jaxpr: Any, operands: Sequence[Estimate]) -> list[Estimate]:
    return evaluate(jaxpr, operands, functools.partial(_apply, by_rule), of_constant)


def _count_applied(jaxpr: Any) -> int:
    """Returns how many operations a jaxpr applies; a loop of unknown length counts as one step."""
    total = 0
    for equation in getattr(jaxpr, "jaxpr", jaxpr).eqns:
        inner = jaxprs(equation.params.values())
        total += int(equation.params.get("length", 1) or 1) * sum(map(_count_applied, inner)) if inner else 1
    return total


def _scan(by_rule: ByRule, params: dict[str, Any], operands: list[Estimate]) -> list[Estimate]:
    """Follows each step of a scan."""
    length, body = params["length"], params["jaxpr"]
    if "num_consts" in params:
        consts, carries = params["num_consts"], params["num_carry"]
    else:  # since jax 0.11.2
        consts, carries, _ = map(len, params["ft_in"].unpack())
    if length * _count_applied(body) > MOST_APPLIED:
        raise Underivable(f"a `scan` of {length} steps applies more than {MOST_APPLIED} operations")
    fixed, carry, rows = operands[:consts], operands[consts : consts + carries], operands[consts + carries :]
    peaks = [np.abs(each.value) for each in carry]
    avals = body.out_avals[carries:]
    stacks: list[list[Estimate]] = [[] for _ in avals]
    order = range(length - 1, -1, -1) if params["reverse"] else range(length)
    for step in order:
        here = [row.moved(operator.itemgetter(step)) for row in rows]
        results = _inside(by_rule, body, [*fixed, *carry, *here])
        carry, peaks = _carry(results[:carries], peaks)
        for stack, result in zip(stacks, results[carries:], strict=True):
            stack.append(result)
    for stack, aval in zip(stacks, avals, strict=True):
        ordered = stack[::-1] if params["reverse"] else stack
        carry.append(joined(ordered, np.stack) if stack else of_input(np.zeros((0, *aval.shape), aval.dtype)))
    return carry


def _carry(results: list[Estimate], peaks: list[Array]) -> tuple[list[Estimate], list[Array]]:
    """Returns the values that a step passes to the next one, and the largest values that any step has passed."""
    peaks = [np.fmax(peak, np.abs(each.value)) for peak, each in zip(peaks, results, strict=True)]
    return [_limited(each, peak) for each, peak in zip(results, peaks, strict=True)], peaks


def _limited(carried: Estimate, peak: Array) -> Estimate:
    """Returns a carried value with ``S`` limited by :data:`GROWTH`: no kernel moves terms through a long loop."""
    if carried.size is None or not carried.is_float:
        return carried
    most = np.where(np.isinf(carried.size), np.inf, np.maximum(GROWTH * peak, np.abs(carried.value)))
    return dataclasses.replace(carried, size=np.fmin(carried.size, most))


_IN_DOUBLE = {"f": np.float64, "V": np.float64, "c": np.complex128}
"""The widest types of JAX, by the kind of a dtype. NumPy gives bfloat16 the kind of a structure."""


def _default(dtype: np.dtype[Any]) -> float:
    return TOLERANCE[dtype.name] * float(finfo(dtype).eps) / 2


def _with_tolerance(reference: Reference, inputs: Arrays, tolerance: float | None) -> tuple[Expected, ...]:
    """Returns the reference in float64, with a tolerance relative to each result and to the largest one."""

    widened = tuple(array.astype(_IN_DOUBLE.get(array.dtype.kind, array.dtype)) for array in inputs)
    try:
        dtypes = [each.dtype for each in jaxpr_of(reference, inputs).out_avals]
        closed = jaxpr_of(reference, widened, in_double=True)
        if elements(closed.jaxpr) > MOST_BY_NUMPY:
            raise Underivable("it is computed by XLA")
        with np.errstate(all="ignore"):
            estimates = _inside(_by_value, closed, [_exact(array) for array in widened])
        values = [each.value for each in estimates]
    except (Underivable, TypeError):  # NumPy cannot compute the jaxpr, for example with keys of random numbers
        with in_double(needs_x64(*(each.dtype for each in inputs))):
            dtypes = [np.asarray(leaf).dtype for leaf in jax.tree.leaves(reference(*map(jnp.asarray, inputs)))]
        with in_double():
            values = [np.asarray(leaf) for leaf in jax.tree.leaves(reference(*map(jnp.asarray, widened)))]
    return tuple(_near(value, dtype, tolerance) for value, dtype in zip(values, dtypes, strict=True))


def _exact(array: Array) -> Estimate:
    return Estimate(array.astype(WIDE.get(array.dtype, array.dtype)), None, array.dtype)


_BY_XLA = {"dot_general", "conv_general_dilated"}
"""Primitives without comparisons that XLA computes much faster."""


def _by_value(equation: Any, operands: list[Estimate], outs: list[Any]) -> list[Estimate]:
    """Returns the results of an operation without errors, rounded to their dtypes; by XLA if there is no rule."""
    operands = [Estimate(each.value, None, each.dtype) for each in operands]
    try:
        if equation.primitive.name in _BY_XLA:
            raise Underivable("it is computed by XLA")
        values = [each.value for each in _by_rule(equation, operands, outs)]
    except Underivable:
        values = by_jax(equation.primitive, [each.value.astype(each.dtype) for each in operands], equation.params)
    return [_exact(np.asarray(value).astype(out.dtype)) for value, out in zip(values, outs, strict=True)]


def _near(value: Array, dtype: np.dtype[Any], tolerance: float | None) -> Expected:
    if dtype not in WIDE:
        if dtype.kind not in "iub":
            raise TypeError(f"an output of the reference is {dtype}, which cannot be judged; expected numbers.")
        return exact(value.astype(dtype))
    relative = _default(dtype) if tolerance is None else tolerance
    value = value.astype(WIDE[dtype])
    sizes = np.abs(np.where(np.isfinite(value), value, 0))
    margin = relative * (sizes + sizes.max(initial=0)) + float(finfo(dtype).tiny)
    return Expected(value, dtype, margin)
