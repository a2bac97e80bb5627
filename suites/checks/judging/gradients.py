"""Computes the true cotangents of an operator's inputs, with error bounds, for the checks of gradients.

Truth is the ``jax.vjp`` of the reference in float64, from inputs and cotangents that are already rounded to the tested
dtype. A cotangent is a sum of products like any other result, so its error bound is ``gamma_k S`` of
:mod:`suites.numerics.error_model`. ``k`` is the longest chain of roundings and ``S`` the sum of absolute terms. The
bound holds for any order of additions, also where threads add to a shared cotangent by atomic operations.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from suites.declare.gradient import Pullback
from suites.declare.operator import Operator
from suites.numerics.arrays import Array
from suites.numerics.error_model import Truth, bounded


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
    pullback = _pullback(operator)
    with jax.enable_x64(True):
        wide_inputs, wide_cotangents = list(map(_wide, inputs)), list(map(_wide, cotangents))
        values = pullback(wide_inputs, wide_cotangents)
        conditions = gradient.condition(pullback, wide_inputs, wide_cotangents)
    expected = []
    for (index, terms), value, condition in zip(gradient.terms.items(), values, conditions, strict=True):
        dtype = inputs[index].dtype
        # Truth is computed in float64, so it is as uncertain as a float64 result.
        chain = (terms(*inputs) if callable(terms) else terms) * (2 if dtype == np.float64 else 1)
        # A float16 result may be subnormal, with an absolute error of u tiny for each rounding.
        expected.append(bounded(value, dtype, condition=condition, terms=chain, flushed=chain + 1))
    return Truth(tuple(expected))


def cotangent_values(operator: Operator, inputs: Sequence[Array], cotangents: Sequence[Array]) -> list[Array]:
    """The values of :func:`true_cotangents` alone, in float64."""
    with jax.enable_x64(True):
        return _pullback(operator)(list(map(_wide, inputs)), list(map(_wide, cotangents)))


@functools.lru_cache(maxsize=64)
def _pullback(operator: Operator) -> Pullback:
    """The pullback of the reference, compiled: operation by operation it would take a second."""
    assert operator.gradient is not None
    indices = list(operator.gradient.terms)

    @jax.jit
    def compiled(inputs: list[Any], cotangents: list[Any]) -> list[jax.Array]:
        def function(*floats: jax.Array) -> list[jax.Array]:
            arguments = list(inputs)
            for index, each in zip(indices, floats, strict=True):
                arguments[index] = each
            return list(operator.reference(*arguments))

        _, vjp = jax.vjp(function, *(inputs[index] for index in indices))
        return list(vjp(cotangents))

    return lambda inputs, cotangents: list(map(np.asarray, compiled(list(inputs), list(cotangents))))


def _wide(array: Array) -> Array:
    return array.astype(np.float64) if array.dtype.kind == "f" else array
