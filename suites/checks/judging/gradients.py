"""Computes the true cotangents of an operator's inputs, with error bounds, for the checks of gradients.

Truth is the ``jax.vjp`` of the reference in float64, from inputs and cotangents that are already rounded to the tested
dtype. A cotangent is a sum of products like any other result, so its error bound is ``gamma_k S`` of
:mod:`suites.numerics.error_model`. ``k`` is the longest chain of roundings and ``S`` the sum of absolute terms. The
bound holds for any order of additions, also where threads add to a shared cotangent by atomic operations.

Long sums have the probabilistic bound of :mod:`suites.numerics.partial_sums`. Cotangents of the outputs are random, so
the order of the terms says nothing of their signs: partial sums are as large as the result or the root of the sum of
squares. If inputs and cotangents are whole numbers, the derivative of the reference shows which sums are not rounded
at all (:mod:`suites.numerics.quanta`); these must be exact.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import jax
import numpy as np

from suites.checks.judging.derived_gradients import derived_cotangents
from suites.declare.differentiation import function_of
from suites.declare.gradient import Gradient, Pullback
from suites.declare.operator import Operator
from suites.numerics.arrays import Array
from suites.numerics.derived import derived_truth
from suites.numerics.error_model import Expected, Truth, bounded
from suites.numerics.partial_sums import few_values
from suites.numerics.quanta import quantum


def random_cotangents(operator: Operator, inputs: Sequence[Any], seed: int) -> list[Array]:
    """Normally distributed cotangents of the outputs. Integer outputs have cotangents of JAX's type ``float0``."""
    random = np.random.default_rng([seed, 1])  # not the stream of the inputs, which may start with the seed
    return [
        random.standard_normal(out.shape).astype(out.dtype)
        if np.dtype(out.dtype).kind == "f"
        else np.zeros(out.shape, jax.dtypes.float0)
        for out in operator.outputs(*inputs)
    ]


def true_cotangents(operator: Operator, inputs: Sequence[Array], cotangents: Sequence[Array]) -> Truth:
    """The cotangents of the inputs that have one, with error bounds."""
    gradient = operator.gradient
    assert gradient is not None
    if gradient.terms is None:
        return derived_cotangents(operator, inputs, cotangents)
    pullback = _pullback(operator)
    with jax.enable_x64(True):
        wide_inputs, wide_cotangents = list(map(_wide, inputs)), list(map(_wide, cotangents))
        values = pullback(wide_inputs, wide_cotangents)
        conditions = gradient.condition(pullback, wide_inputs, wide_cotangents)
        partials = _partial_sums(gradient, pullback, wide_inputs, wide_cotangents, values)
    expected = []
    for (index, terms), value, condition, partial in zip(
        gradient.terms.items(), values, conditions, partials, strict=True
    ):
        dtype = inputs[index].dtype
        # Truth is computed in float64, so it is as uncertain as a float64 result.
        chain = (terms(*inputs) if callable(terms) else terms) * (2 if dtype == np.float64 else 1)
        # A float16 result may be subnormal, with an absolute error of u tiny for each rounding.
        expected.append(bounded(value, dtype, condition=condition, terms=chain, flushed=chain + 1, partial=partial))
    if _whole(inputs, cotangents):
        expected = _exact_where_derived(operator, inputs, cotangents, expected)
    return Truth(tuple(expected))


def _partial_sums(
    gradient: Gradient, pullback: Pullback, inputs: list[Array], cotangents: list[Array], values: list[Array]
) -> list[Any]:
    """``T`` of the cotangents: ``s**2 + Q``, with ``4 Q`` for terms that have a factor of two as in ``2 x g``."""
    if gradient.squares is None or any(few_values(each.reshape(-1)) for each in cotangents if each.dtype.kind == "f"):
        return [None] * len(values)
    with np.errstate(all="ignore"):
        squares = gradient.squares(pullback, inputs, cotangents)
        return [np.sqrt(np.square(value) + 4 * each) for value, each in zip(values, squares, strict=True)]


def _whole(inputs: Sequence[Array], cotangents: Sequence[Array]) -> bool:
    """Whether all floats are multiples of 1/256, so that sums of their products may be exact."""
    return bool(quantum(*(each for each in (*inputs, *cotangents) if each.dtype.kind == "f")) >= 2.0**-8)


def _exact_where_derived(
    operator: Operator, inputs: Sequence[Array], cotangents: Sequence[Array], expected: list[Expected]
) -> list[Expected]:
    assert operator.gradient is not None
    indices, count = list(operator.gradient.terms or ()), len(inputs)
    real = [each for each in cotangents if each.dtype.kind == "f"]

    def derivative(*arrays: jax.Array) -> list[jax.Array]:
        floats = iter(arrays[count:])
        given = [next(floats) if each.dtype.kind == "f" else each for each in cotangents]

        def function(*some: jax.Array) -> list[jax.Array]:
            arguments = list(arrays[:count])
            for index, each in zip(indices, some, strict=True):
                arguments[index] = each
            return list(operator.reference(*arguments))

        _, vjp = jax.vjp(function, *(arrays[index] for index in indices))
        return list(vjp(given))

    derived = derived_truth(derivative, (*inputs, *real)).outputs
    return [
        mine
        if theirs.margin is None or mine.margin is None
        else replace(mine, margin=np.where(theirs.margin == 0, 0, mine.margin))
        for mine, theirs in zip(expected, derived, strict=True)
    ]


def cotangent_values(operator: Operator, inputs: Sequence[Array], cotangents: Sequence[Array]) -> list[Array]:
    """The values of :func:`true_cotangents` alone, in float64."""
    with jax.enable_x64(True):
        return _pullback(operator)(list(map(_wide, inputs)), list(map(_wide, cotangents)))


@functools.lru_cache(maxsize=64)
def _pullback(operator: Operator) -> Pullback:
    """The pullback of the reference, compiled: operation by operation it would take a second."""
    assert operator.gradient is not None

    @jax.jit
    def compiled(inputs: list[Any], cotangents: list[Any]) -> list[jax.Array]:
        function, floats = function_of(operator.reference, inputs, operator.differentiated(inputs))
        _, vjp = jax.vjp(function, *floats)
        return list(vjp(cotangents))

    return lambda inputs, cotangents: list(map(np.asarray, compiled(list(inputs), list(cotangents))))


def _wide(array: Array) -> Array:
    return array.astype(np.float64) if array.dtype.kind == "f" else array
