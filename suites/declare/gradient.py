"""Declares how an operator is differentiated."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from suites.declare import fields
from suites.errors import OperatorError


@dataclass(frozen=True)
class Gradient:
    """Says that an operator has the derivative of its reference, at its samples.

    How exact it must be follows from the derivative of the reference, as :func:`suites.derived_truth` does it.

    Attributes:
        inputs: The indices of the inputs that have a derivative. By default all inputs of real floats in which the
            kernels can be differentiated. A function around Warp kernels has a derivative only if they are given.
        dtypes: The dtypes in which they have one; None for all of the operator's dtypes that are floats.
        sizes: Nominal sizes for checks; None for the operator's sizes.
        is_assumed: Whether it stands for a field that the author left out.
    """

    inputs: Sequence[int] | None = None
    dtypes: Sequence[Any] | None = None
    sizes: tuple[int, ...] | None = None
    is_assumed: bool = field(default=False, init=False)

    def __post_init__(self) -> None:
        if self.inputs is not None:
            self._check_inputs()
        optional = {"dtypes": fields.dtypes, "sizes": fields.sizes}
        for name, normal in optional.items():
            if getattr(self, name) is not None:
                object.__setattr__(self, name, normal(f"Gradient: {name}", getattr(self, name)))

    @classmethod
    def assumed(cls) -> Gradient:
        """The gradient of an operator that declares none: a rule of its author must be right, by derived bounds."""
        made = cls()
        object.__setattr__(made, "is_assumed", True)
        return made

    def _check_inputs(self) -> None:
        several = (self.inputs,) if isinstance(self.inputs, int) else tuple(self.inputs or ())
        if not several or not all(isinstance(index, int) and index >= 0 for index in several):
            raise OperatorError(f"Gradient: inputs is {self.inputs!r}, expected indices of inputs, such as (0, 2).")
        object.__setattr__(self, "inputs", tuple(sorted(set(several))))
