"""Declares the values that an input may take, so that checks draw only these.

If the author declares no domain, that of an integer input is guessed from samples. No kernel checks its indices, and an
index beyond the end of an array would read other memory. So integers that look like indices in every sample stay in the
range of the sample. For all other inputs, any value of the dtype is drawn.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from suites.errors import OperatorError
from suites.kernels.half_precision import FLOATS
from suites.numerics.arrays import Array, Inputs
from suites.numerics.error_model import finfo


@dataclass(frozen=True, kw_only=True)
class Domain:
    """The values that an input may take. Without arguments: any value of its dtype.

    The fields combine. An input of positive numbers is ``Domain(least=0, zero=False)``. An index into the first axis
    of ``x`` is ``Domain(below=lambda x, index: x.shape[0])``, and ``Domain(below=..., ascending=True)`` in order.

    Attributes:
        least: The smallest value; with a limit on either side, no value is NaN.
        most: The largest value.
        below: A number that every value is less than, or a function of the inputs that gives it. The smallest value is
            then 0 unless ``least`` says otherwise.
        zero: Whether a value may be zero. A subnormal number counts as zero here: XLA's threads flush it.
        finite: Whether no float is NaN or infinite.
        normal: Whether no float is subnormal.
        ascending: Whether the elements are in ascending order along the last axis.
        fixed: Whether the input is always the sample's: a parameter, or the structure of a sparse matrix.

    Raises:
        OperatorError: The fields leave no value.
    """

    least: float | None = None
    most: float | None = None
    below: int | Callable[..., int] | None = None
    zero: bool = True
    finite: bool = False
    normal: bool = False
    ascending: bool = False
    fixed: bool = False

    def __post_init__(self) -> None:
        for name in ("least", "most"):
            value = getattr(self, name)
            if value is not None and (isinstance(value, bool) or not isinstance(value, int | float | np.number)):
                raise OperatorError(f"Domain: {name} is {value!r}, expected a number.")
        if self.below is not None and not callable(self.below) and not isinstance(self.below, int | np.integer):
            raise OperatorError(f"Domain: below is {self.below!r}, expected an integer or a function of the inputs.")
        if self.least is not None and self.most is not None and not self.least <= self.most:
            raise OperatorError(f"Domain: least is {self.least} and most is {self.most}, which leaves no value.")

    def __str__(self) -> str:
        """Returns the declared fields, such as ``least=0, most=9, ascending=True``; ``any`` if there are none."""
        entries = ((each.name, getattr(self, each.name), each.default) for each in fields(self))
        words = [f"{name}={value}" for name, value, default in entries if value != default and not callable(value)]
        words += ["below a limit by other inputs"] if callable(self.below) else []
        return ", ".join(words) or "any"

    def limits(self, dtype: np.dtype[Any], inputs: Sequence[Any]) -> tuple[Any, Any]:
        """Returns the smallest and the largest value in a dtype; infinities where floats have no limit.

        Args:
            dtype: The dtype of the input.
            inputs: The inputs of the call, or anything with their shapes.

        Raises:
            OperatorError: ``below`` gives no number, or the limits leave no value.
        """
        least, most = self.least, self.most
        if self.below is not None:
            end = self.below(*inputs) if callable(self.below) else self.below
            if isinstance(end, bool) or not isinstance(end, int | np.integer):
                raise OperatorError(f"Domain: below returned {end!r}, expected an integer.")
            least = 0 if least is None else least
            last = int(end) - 1 if dtype.kind in "iu" else float(np.nextafter(np.float64(end), -np.inf))
            most = last if most is None else min(most, last)
        if dtype.kind in "iu":
            info = np.iinfo(dtype)
            return max(int(info.min), int(np.ceil(least)) if least is not None else int(info.min)), min(
                int(info.max), int(np.floor(most)) if most is not None else int(info.max)
            )
        return (-np.inf if least is None else least), (np.inf if most is None else most)

    def fitted(self, drawn: Array, sample: Array, inputs: Sequence[Any]) -> Array:
        """Returns drawn values, with other values in place of the elements outside of the domain.

        Integers wrap around between the limits. Other elements are replaced by those of the sample.

        Args:
            drawn: Values of any kind, in the dtype and shape of the sample.
            sample: A sample of this input.
            inputs: The inputs of the call, or anything with their shapes.
        """
        if self.fixed or not drawn.size:
            return sample
        fitted = drawn
        if drawn.dtype.kind in "iu":
            least, most = self.limits(drawn.dtype, inputs)
            if least > most:
                raise OperatorError(f"Domain: no integer is from {least} to {most}, but an element is needed.")
            if most - least < 2**62:
                wrapped = (np.mod(drawn.astype(np.int64), most - least + 1) + least).astype(drawn.dtype)
                fitted = np.where((drawn < least) | (drawn > most), wrapped, drawn)
        fitted = np.where(self._is_outside(fitted, inputs), sample, fitted).astype(drawn.dtype, copy=False)
        return np.sort(fitted, axis=-1) if self.ascending and fitted.ndim else fitted

    def moved(self, typical: Array, inputs: Sequence[Any]) -> Array:
        """Returns typical values, such as random ones around 0; those outside of the domain are moved into it.

        Args:
            typical: The values.
            inputs: The inputs of the call, or anything with their shapes.
        """
        if self.fixed:
            return typical
        inside = np.ones_like(typical)
        if typical.dtype.name in FLOATS:
            least, most = self.limits(typical.dtype, inputs)
            size = np.abs(typical.astype(np.float64))
            if np.isinf(most):
                size = size + (0 if np.isinf(least) else least)
            elif np.isinf(least):
                size = most - size
            else:
                size = least + (most - least) * np.mod(size, 1.0)
            inside = np.clip(size.astype(typical.dtype), least, most).astype(typical.dtype)
        return self.fitted(typical, self.fitted(inside, np.ones_like(typical), inputs), inputs)

    def outside(self, array: Array, inputs: Sequence[Any]) -> str | None:
        """Returns the value or the property of an array that is outside of the domain, as text; None if none is."""
        if self.fixed or not array.size:
            return None
        if self.ascending and not is_ascending(array):
            return "elements that are not in ascending order"
        wrong = self._is_outside(array, inputs)
        return f"the value {array.reshape(-1)[int(wrong.reshape(-1).argmax())]!s}" if wrong.any() else None

    def _is_outside(self, array: Array, inputs: Sequence[Any]) -> Array:
        """Returns where an element is not in the domain."""
        outside, is_float = np.zeros(array.shape, bool), array.dtype.name in FLOATS
        with np.errstate(all="ignore"):
            if (self.least, self.most, self.below) != (None, None, None) and (is_float or array.dtype.kind in "iu"):
                least, most = self.limits(array.dtype, inputs)
                outside |= ~((array >= least) & (array <= most))
            if self.finite and (is_float or array.dtype.kind == "c"):
                outside |= ~np.isfinite(array)
            tiny = (np.abs(array) < float(finfo(array.dtype).tiny)) if is_float else array == 0
            if self.normal:
                outside |= tiny & (array != 0)
            if not self.zero:
                outside |= tiny  # a subnormal number becomes zero where it is flushed
        return outside


def is_ascending(array: Array) -> bool:
    """Tells whether no element is less than the one before it. Differences of unsigned integers would wrap around."""
    return not (array[..., 1:] < array[..., :-1]).any()


SEEDS = (0, 1, 2)
"""Seeds of the samples for a guess."""


def guessed(
    index: int, sample: Callable[[str, int, int], Inputs], outputs: Callable[..., Any], dtype: str, sizes: Sequence[int]
) -> Domain:
    """Returns the domain that samples suggest for an input.

    Integers that are never negative, and less than the longest axis of the call, are indices; the largest one of the
    sample is their limit. They are fixed if they are ascending, like row pointers, or equal for every seed, like
    parameters.
    """
    by_size = [[sample(dtype, size, seed) for seed in SEEDS] for size in sizes]
    calls = [inputs for several in by_size for inputs in several]
    values = [inputs[index] for inputs in calls]
    if values[0].dtype.kind not in "iu":
        return Domain()
    if all(np.array_equal(each[index], several[0][index]) for several in by_size for each in several):
        return Domain(fixed=True)
    if any(each.min(initial=0) < 0 for each in values):
        return Domain()
    if all(map(is_ascending, values)) and any(each.size > 4 for each in values):
        return Domain(fixed=True)
    longest = [max(max(array.shape, default=0) for array in (*inputs, *outputs(*inputs))) for inputs in calls]
    are_indices = all(each.max(initial=0) < most for each, most in zip(values, longest, strict=True))
    return Domain(below=lambda *inputs: int(inputs[index].max(initial=0)) + 1) if are_indices else Domain()
