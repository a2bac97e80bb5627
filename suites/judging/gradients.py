"""An operator's inputs and the cotangents of its outputs in, the true cotangents of its inputs with error bounds out.

Truth is what ``jax.vjp`` makes of the reference in float64, of inputs and cotangents that are already rounded to the
tested dtype. A cotangent is a sum of products like any other result, so the error model is that of
:mod:`suites.truth.error_model`: ``gamma_k S``, with the longest chain of roundings ``k`` and the sum of absolute terms ``S``.
This holds for any order of additions, so also for the atomic ones by which threads add to the cotangent of an input
that they share.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from suites.declare import fields as declaration
from suites.errors import OperatorError
from suites.truth.error_model import Truth, bounded

if TYPE_CHECKING:
    from suites.declare.operator import Limitation, Operator

Array = np.ndarray[Any, Any]

Pullback = Callable[[Sequence[Array], Sequence[Array]], list[Array]]
"""From inputs and cotangents of the outputs, in float64, to the cotangents of the inputs that have one."""


def sums_of_products(pullback: Pullback, inputs: Sequence[Array], cotangents: Sequence[Array]) -> list[Array]:
    """The condition where outputs are sums of products of inputs: they are so of the absolute values as well."""
    return [np.abs(each) for each in pullback(list(map(_magnitude, inputs)), list(map(np.abs, cotangents)))]


def no_sums(pullback: Pullback, inputs: Sequence[Array], cotangents: Sequence[Array]) -> list[Array]:
    """The condition where each cotangent is one product: its absolute value."""
    return [np.abs(each) for each in pullback(inputs, list(map(np.abs, cotangents)))]


@dataclass(frozen=True)
class Gradient:
    """That an operator has a derivative at its samples, and how exact it is.

    Attributes:
        terms: For each input that has a cotangent, by its index: ``k``, the longest chain of roundings in an element of
            the cotangent, or a function that gives it for the inputs of a call.
        condition: From the reference's pullback, inputs and cotangents of the outputs, in float64, to ``S``, the sum of
            the absolute values of what each element of a cotangent is made of, in the order of ``terms``.
        backends: Where kernels have an adjoint, backends or their names; None for wherever the backend's language
            generates one.
        dtypes: For which of the operator's dtypes; None for all floats.
        sizes: Nominal sizes for checks; None for those of the operator.
        limitations: What is known not to work.
    """

    terms: Mapping[int, int | Callable[..., int]]
    condition: Callable[[Pullback, Sequence[Array], Sequence[Array]], Sequence[Array]] = sums_of_products
    backends: Sequence[Any] | None = None
    dtypes: Sequence[Any] | None = None
    sizes: tuple[int, ...] | None = None
    limitations: tuple[Limitation, ...] = ()

    def __post_init__(self) -> None:
        if not isinstance(self.terms, Mapping) or not self.terms:
            raise OperatorError(
                f"Gradient: terms is {self.terms!r}, expected a dict from the index of an input to its number of "
                "roundings, such as {0: 1}."
            )
        for index, terms in self.terms.items():
            is_index = isinstance(index, int) and index >= 0
            if not is_index or not (callable(terms) or (isinstance(terms, int) and terms >= 0)):
                raise OperatorError(
                    f"Gradient: terms has {index!r}: {terms!r}, expected the index of an input, and its number of "
                    "roundings or a function of the inputs that gives it."
                )
        declaration.function("Gradient: condition", self.condition, "a pullback, inputs and cotangents")
        optional = {"backends": declaration.backends, "dtypes": declaration.dtypes, "sizes": declaration.sizes}
        for name, normal in optional.items():
            if getattr(self, name) is not None:
                object.__setattr__(self, name, normal(f"Gradient: {name}", getattr(self, name)))


def random_cotangents(operator: Operator, inputs: Sequence[Any], seed: int) -> list[Array]:
    """Cotangents of the outputs, normally distributed; those of integers have JAX's type for that, ``float0``."""
    random = np.random.default_rng([seed, 1])  # another stream than that of the inputs, which may start with the seed
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
        # Truth is no wider than float64, and then as uncertain as the result.
        chain = (terms(*inputs) if callable(terms) else terms) * (2 if dtype == np.float64 else 1)
        # A float16 result may be subnormal, with an absolute error of u tiny for each rounding.
        expected.append(bounded(value, dtype, condition=condition, terms=chain, flushed=chain + 1))
    return Truth(tuple(expected))


@functools.lru_cache(maxsize=64)
def _pullback(operator: Operator) -> Pullback:
    """That of the reference, compiled: one by one its operations would take a second."""
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


def _magnitude(array: Array) -> Array:
    return np.abs(array) if array.dtype.kind == "f" else array
