"""Declares which values an input may take, so that checks can draw every one of them and none besides."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from suites.errors import OperatorError
from suites.numerics.arrays import Array
from suites.numerics.error_model import finfo

FLOATS = ("float16", "bfloat16", "float32", "float64")


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
        zero: Whether a value may be zero.
        finite: Whether no float is NaN or infinite.
        normal: Whether no float is subnormal.
        ascending: Whether the elements are in ascending order along the last axis.
        distinct: Whether no two elements are equal.
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
    distinct: bool = False
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
        """Returns the domain in a few words, such as ``0 to 9, ascending``."""
        if self.fixed:
            return "fixed"
        words = []
        if self.least is not None or self.most is not None:
            words.append(f"{'from' if self.most is None else ''} {self._least} {self._most}".strip())
        if self.below is not None:
            words.append("an index of another input" if callable(self.below) else f"below {self.below}")
        words += [] if self.zero else ["not 0"]
        words += [name for name in ("finite", "normal", "ascending", "distinct") if getattr(self, name)]
        return ", ".join(words) or "any"

    @property
    def _least(self) -> str:
        return "" if self.least is None else f"{self.least:g}"

    @property
    def _most(self) -> str:
        return "" if self.most is None else f"to {self.most:g}"

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
        """Returns drawn values with others in place of the elements outside of the domain.

        Values inside stay as they are. The order of outsiders is kept where that is possible: a number below a limit is
        reflected at it, and between two limits numbers wrap around.

        Args:
            drawn: Values of any kind, in the dtype and shape of the sample.
            sample: A sample of this input, whose elements take the place of those that cannot be moved inside.
            inputs: The inputs of the call, or anything with their shapes.
        """
        if self.fixed or not drawn.size:
            return sample
        kind = drawn.dtype
        with np.errstate(all="ignore"):
            if kind.kind in "iu":
                fitted = self._fitted_integers(drawn, inputs)
            elif kind.name in FLOATS:
                fitted = self._fitted_floats(drawn, sample, inputs)
            else:
                fitted = np.where(np.isfinite(drawn), drawn, sample) if kind.kind == "c" and self.finite else drawn
            if not self.zero:
                others = np.where(sample == 0, self._instead_of_zero(kind, inputs), sample)
                fitted = np.where(fitted == 0, others, fitted)
        fitted = fitted.astype(kind, copy=False)
        if self.distinct and np.unique(fitted).size < fitted.size:
            ranks = np.argsort(np.argsort(fitted, axis=None, kind="stable"), kind="stable")
            fitted = np.sort(sample, axis=None)[ranks].reshape(sample.shape)
        return np.sort(fitted, axis=-1) if self.ascending and fitted.ndim else fitted

    def outside(self, array: Array, inputs: Sequence[Any]) -> str | None:
        """Returns what of an array is outside of the domain, in a few words; None if nothing is."""
        if self.fixed:
            return None
        if self.distinct and np.unique(array).size < array.size:
            return "equal elements"
        same = self.fitted(array, array, inputs)
        # A sample that is outside stands for itself; NaN, infinity and zero show that.
        differs = ~((same == array) | ((same != same) & (array != array)))
        if self.finite or self._is_limited:
            differs |= np.asarray(array != array)
        if self.finite and array.dtype.kind in "fc":
            differs |= ~np.isfinite(array)
        if not differs.any():
            return None
        if self.ascending and array.size and (np.diff(array, axis=-1) < 0).any():
            return "elements that are not in ascending order"
        return f"the value {array.reshape(-1)[int(differs.reshape(-1).argmax())]!s}"

    @property
    def _is_limited(self) -> bool:
        return not (self.least is None and self.most is None and self.below is None)

    def _fitted_integers(self, drawn: Array, inputs: Sequence[Any]) -> Array:
        least, most = self.limits(drawn.dtype, inputs)
        if least > most:
            raise OperatorError(f"Domain: no integer is from {least} to {most}, but an element is needed.")
        info = np.iinfo(drawn.dtype)
        if least <= info.min and most >= info.max:
            return drawn
        outside = (drawn < least) | (drawn > most)
        span = most - least + 1
        wide = np.uint64 if drawn.dtype.kind == "u" else np.int64
        inside = np.where(outside, 0, drawn).astype(wide)
        if span <= np.iinfo(wide).max:
            inside = np.where(outside, np.mod(drawn.astype(wide), wide(span)) + wide(least), inside)
        else:  # a span of more than half of all values: only negative ones or the ends are outside
            inside = np.where(outside, np.clip(drawn, least, most), inside)
        fitted: Array = inside.astype(drawn.dtype)
        return fitted

    def _fitted_floats(self, drawn: Array, sample: Array, inputs: Sequence[Any]) -> Array:
        info = finfo(drawn.dtype)
        least, most = self.limits(drawn.dtype, inputs)
        fitted = drawn.astype(np.float64)
        if self._is_limited:
            if np.isfinite(least) and np.isfinite(most):
                beyond = np.isfinite(fitted) & ((fitted < least) | (fitted > most))
                fitted = np.where(beyond, least + np.mod(fitted - least, most - least or 1.0), fitted)
            elif np.isfinite(least):
                fitted = np.where(fitted < least, least + (least - fitted), fitted)
            elif np.isfinite(most):
                fitted = np.where(fitted > most, most - (fitted - most), fitted)
            fitted = np.where(np.isnan(fitted), sample.astype(np.float64), np.clip(fitted, least, most))
        if self.finite:
            limited = np.clip(fitted, -float(info.max), float(info.max))
            fitted = np.where(np.isfinite(drawn), limited, sample.astype(np.float64))
        if self.normal:
            tiny = float(info.tiny)
            small = (np.abs(fitted) < tiny) & (fitted != 0)
            fitted = np.where(small, np.copysign(tiny, fitted), fitted)
        unchanged = (fitted == drawn) | (np.isnan(fitted) & np.isnan(drawn))
        rounded = fitted.astype(drawn.dtype)
        # Rounding to the dtype may have left the domain by one step.
        if self._is_limited:
            low, high = rounded.astype(np.float64) < least, rounded.astype(np.float64) > most
            rounded = np.where(low, np.nextafter(rounded, np.asarray(np.inf, rounded.dtype)), rounded)
            rounded = np.where(high, np.nextafter(rounded, np.asarray(-np.inf, rounded.dtype)), rounded)
        return np.where(unchanged, drawn, rounded).astype(drawn.dtype)

    def _instead_of_zero(self, dtype: np.dtype[Any], inputs: Sequence[Any]) -> Any:
        least, most = self.limits(dtype, inputs) if dtype.kind in "iuf" else (0, 1)
        return next((each for each in (1, most, least) if each and least <= each <= most and np.isfinite(each)), 1)
