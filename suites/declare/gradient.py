"""Declares how an operator is differentiated, and how exact its cotangents must be."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from suites.declare import fields
from suites.declare.limitation import Limitation
from suites.errors import OperatorError
from suites.numerics.arrays import Array

Pullback = Callable[[Sequence[Array], Sequence[Array]], list[Array]]
"""Takes inputs and cotangents of the outputs, in float64. Returns the cotangents of the inputs that have one."""


def sums_of_products(pullback: Pullback, inputs: Sequence[Array], cotangents: Sequence[Array]) -> list[Array]:
    """The condition of an operator whose outputs are sums of products: the same sums of the absolute values."""
    return [np.abs(each) for each in pullback(list(map(_magnitude, inputs)), list(map(np.abs, cotangents)))]


def squares_of_products(pullback: Pullback, inputs: Sequence[Array], cotangents: Sequence[Array]) -> list[Array]:
    """The sums of squares that belong to :func:`sums_of_products`: the same sums of the squared values."""
    return [np.abs(each) for each in pullback(list(map(_square, inputs)), list(map(np.square, cotangents)))]


def no_sums(pullback: Pullback, inputs: Sequence[Array], cotangents: Sequence[Array]) -> list[Array]:
    """The condition of an operator whose cotangents are single products: their absolute values."""
    return [np.abs(each) for each in pullback(inputs, list(map(np.abs, cotangents)))]


def _square(array: Array) -> Array:
    return np.square(array) if array.dtype.kind == "f" else array


def _magnitude(array: Array) -> Array:
    return np.abs(array) if array.dtype.kind == "f" else array


@dataclass(frozen=True)
class Gradient:
    """Says that an operator has a derivative at its samples, and how exact it is.

    The error model is in :mod:`suites.numerics.error_model`: a cotangent may be off by ``gamma_k S``. Without ``terms``
    the bound is derived from the derivative of the reference, as :func:`suites.derived_truth` does it.

    Attributes:
        terms: ``k`` for each input that has a cotangent, by the index of the input: the longest chain of roundings in
            an element of the cotangent, or a function that gives it for the inputs of a call. None to derive it.
        condition: Takes the reference's pullback, the inputs and the cotangents of the outputs, in float64. Returns
            ``S`` for each input in ``terms``: the sum of the absolute values of all terms of each element.
        squares: Takes the same as ``condition``. Returns the sum of the squares of all terms of each element, for the
            probabilistic bound. None, the default, leaves the worst case alone, unless ``condition`` is
            :func:`sums_of_products`.
        backends: The backends whose kernels have an adjoint, or their names; None for all whose language generates one.
        dtypes: The dtypes in which they have one; None for all of the operator's dtypes that are floats.
        sizes: Nominal sizes for checks; None for the operator's sizes.
        limitations: Derivatives that are known not to work.
        inputs: The indices of the inputs that have a derivative, if ``terms`` does not say it. By default all inputs of
            real floats in which the kernels can be differentiated.
        is_assumed: Whether it stands for a field that the author left out.
    """

    terms: Mapping[int, int | Callable[..., int]] | None = None
    condition: Callable[[Pullback, Sequence[Array], Sequence[Array]], Sequence[Array]] = sums_of_products
    squares: Callable[[Pullback, Sequence[Array], Sequence[Array]], Sequence[Array]] | None = None
    backends: Sequence[Any] | None = None
    dtypes: Sequence[Any] | None = None
    sizes: tuple[int, ...] | None = None
    limitations: tuple[Limitation, ...] = ()
    inputs: Sequence[int] | None = None
    is_assumed: bool = field(default=False, init=False)

    def __post_init__(self) -> None:
        if self.terms is not None and (not isinstance(self.terms, Mapping) or not self.terms):
            raise OperatorError(
                f"Gradient: terms is {self.terms!r}, expected a dict from the index of an input to its number of "
                "roundings, such as {0: 1}. Leave it out to have the bound derived."
            )
        if self.inputs is not None:
            self._check_inputs()
        for index, terms in (self.terms or {}).items():
            is_index = isinstance(index, int) and index >= 0
            if not is_index or not (callable(terms) or (isinstance(terms, int) and terms >= 0)):
                raise OperatorError(
                    f"Gradient: terms has {index!r}: {terms!r}, expected the index of an input, and its number of "
                    "roundings or a function of the inputs that gives it."
                )
        fields.function("Gradient: condition", self.condition, "a pullback, inputs and cotangents")
        if self.squares is None and self.condition is sums_of_products:
            object.__setattr__(self, "squares", squares_of_products)
        if self.squares is not None:
            fields.function("Gradient: squares", self.squares, "a pullback, inputs and cotangents")
        optional = {"backends": fields.backends, "dtypes": fields.dtypes, "sizes": fields.sizes}
        for name, normal in optional.items():
            if getattr(self, name) is not None:
                object.__setattr__(self, name, normal(f"Gradient: {name}", getattr(self, name)))

    @classmethod
    def assumed(cls) -> Gradient:
        """The gradient of an operator that declares none: a rule of its author must be right, by derived bounds."""
        made = cls()
        object.__setattr__(made, "is_assumed", True)
        return made

    @property
    def is_derived(self) -> bool:
        """Whether bounds follow from the derivative of the reference."""
        return self.terms is None

    def _check_inputs(self) -> None:
        several = (self.inputs,) if isinstance(self.inputs, int) else tuple(self.inputs or ())
        if self.terms is not None:
            raise OperatorError("Gradient: inputs is for derived bounds, but terms names the inputs. Leave one out.")
        if not several or not all(isinstance(index, int) and index >= 0 for index in several):
            raise OperatorError(f"Gradient: inputs is {self.inputs!r}, expected indices of inputs, such as (0, 2).")
        object.__setattr__(self, "inputs", tuple(sorted(set(several))))
