"""Answers for an operator's results: its reference, the specs of its outputs, and its truth."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from suites.declare.answer import Answer, Given
from suites.declare.given_inputs import described
from suites.errors import OperatorError
from suites.numerics.derived import derived_truth
from suites.numerics.error_model import Expected, Truth
from suites.numerics.precision import precision


class Reference(Answer):
    """Returns the results of the reference as a list of JAX arrays."""

    field = "reference"
    takes = "JAX's arrays"

    def __init__(self, operator: Any, given: Given | None):
        super().__init__(operator, given)
        if self.given is None:
            raise OperatorError(f"{self.where} is None, expected a function of {self.takes}.")

    def __call__(self, *inputs: Any) -> list[jax.Array]:
        assert self.given is not None
        leaves = jax.tree.leaves(self.given(*inputs))
        if not leaves:
            raise OperatorError(f"{self.where} returned no array, expected one for each output. Return the result.")
        return list(map(self._array, leaves))

    def _array(self, leaf: Any) -> jax.Array:
        try:
            return jnp.asarray(leaf)
        except TypeError:
            raise OperatorError(
                f"{self.where} returned {described(leaf)}, expected arrays: one, or a tuple or list of them."
            ) from None


class Outputs(Answer):
    """Returns a list of ``jax.ShapeDtypeStruct``; the default is the shapes and dtypes of the reference's results."""

    field = "outputs"

    def __init__(self, operator: Any, given: Given | None):
        super().__init__(operator, given)
        self._known: dict[Any, list[jax.ShapeDtypeStruct]] = {}

    def __call__(self, *inputs: Any) -> list[jax.ShapeDtypeStruct]:
        if self.given is None:
            key = tuple((tuple(array.shape), np.dtype(array.dtype)) for array in inputs)
            if key not in self._known:
                self._known[key] = self._of_reference(key)
            return list(self._known[key])
        leaves = jax.tree.leaves(self.given(*inputs))
        if not leaves or not all(hasattr(leaf, "shape") and hasattr(leaf, "dtype") for leaf in leaves):
            raise OperatorError(
                f"{self.where} returned {leaves}, expected a jax.ShapeDtypeStruct for each output. "
                "Leave it out to have those of the reference."
            )
        return list(map(_struct, leaves))

    def _of_reference(self, key: Any) -> list[jax.ShapeDtypeStruct]:
        with precision(*(dtype for _, dtype in key)):
            specs = [jax.ShapeDtypeStruct(shape, dtype) for shape, dtype in key]
            return list(map(_struct, jax.eval_shape(self.operator.reference, *specs)))


def _struct(leaf: Any) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(leaf.shape, leaf.dtype)


class TruthOf(Answer):
    """Returns a ``Truth``; the default is derived from the reference."""

    field = "truth"

    def __call__(self, *inputs: Any) -> Truth:
        if self.given is None:
            return derived_truth(self.operator.reference, inputs, self.operator.tolerance)
        found = self.given(*inputs)
        truth = found if isinstance(found, Truth) else Truth((found,))
        if not truth.outputs or not all(isinstance(each, Expected) for each in truth.outputs):
            raise OperatorError(
                f"{self.where} returned {described(found)}, expected suites.exact(value) or suites.Expected(value, "
                "dtype, margin), several of them in a suites.Truth. Leave it out to have it derived from the reference."
            )
        return truth
