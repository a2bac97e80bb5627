"""Describes the common pattern of wrong results: where they are, and their values instead of the true ones."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from suites.numerics.arrays import Array, kind_of

LEAST = 3
"""The least number of wrong elements, with different true values, that show a rule. Fewer may agree by chance."""

SHARE = 0.9
"""The share of elements that must agree with a rule. The others may be right by chance, as zeros often are."""

NEAR, BETTER = 1e-4, 16
"""The largest relative distance to a rule, since wrong kernels round too; and how much farther the truth must be."""


_NARROWER = {
    "int64": ("int32", "int16", "int8"),
    "int32": ("int16", "int8"),
    "float64": ("float32",),
    "float32": ("float16", "bfloat16"),
}
"""Types that a kernel may compute in by mistake."""


def pattern(got: Array, true: Array, wrong: Array) -> str | None:
    """Returns the common pattern of wrong elements, such as ``the last element along axis 1 is 0.0``; None if nothing.

    Args:
        got: A result.
        true: The true one.
        wrong: True where an element is wrong.
    """
    where, what = places(wrong, true), _instead(got, true, wrong)
    if what is None:
        return None if where in (None, "every element") else f"{where} is wrong"
    return f"{where or 'each wrong element'} {what}"


def places(wrong: Array, true: Array | None = None) -> str | None:
    """Returns where a mask is True, such as ``one element in 16 from 15 on``; None if there is no short rule."""
    if wrong.size <= LEAST or not wrong.any():
        return None
    if wrong.all():
        return "every element"
    if true is not None and true.dtype.kind == "f":
        kinds = {"NaN": np.isnan(true), "infinite": np.isinf(true), "negative": true < 0}
        for kind, mask in kinds.items():
            if wrong.sum() >= LEAST and _agrees(wrong, mask):
                return f"each element whose true value is {kind}"
    for axis in range(wrong.ndim) if wrong.ndim > 1 else ():
        others = tuple(each for each in range(wrong.ndim) if each != axis)
        line: Array = np.asarray(wrong.any(others))
        text = _along(line)
        if text is not None and _agrees(wrong, np.broadcast_to(np.expand_dims(wrong.any(others), others), wrong.shape)):
            return f"{text} along axis {axis}"
    return _along(wrong.reshape(-1))


def _agrees(wrong: Array, rule: Array) -> bool:
    """Tells whether all wrong elements are where the rule is True, and nearly all elements there are wrong."""
    return bool(rule.any() and not (wrong & ~rule).any() and wrong[rule].mean() >= SHARE)


def _along(wrong: Array) -> str | None:
    indices, size = np.flatnonzero(wrong), wrong.size
    first, last, count = int(indices[0]), int(indices[-1]), indices.size
    if count >= SHARE * (size - first) and first:
        return "the last element" if first == size - 1 else f"every element from {first} on"
    if count >= SHARE * (last + 1) and last < size - 1:
        return "the first element" if last == 0 else f"every element up to {last}"
    step = int(np.gcd.reduce(np.diff(indices))) if count >= LEAST else 0
    if step > 1 and count >= SHARE * ((last - first) // step + 1) and first < step and last + step >= size:
        return f"one element in {step} from {first} on"
    return None


def _instead(got: Array, true: Array, wrong: Array) -> str | None:
    """Returns the values of the wrong elements, as a text that continues "every element"; None if there is no rule."""
    if kind_of(got.dtype) not in "fiub":
        return None
    for narrow in _NARROWER.get(got.dtype.name, ()):
        with np.errstate(all="ignore"):
            narrowed, values = true[wrong].astype(narrow).astype(got.dtype), got[wrong]
            if np.array_equal(narrowed, values) and (values != 0).any() and (values != true[wrong]).all():
                return f"is the true value in {narrow}"
    if wrong.sum() < LEAST:
        return None
    got, true = got.astype(np.longdouble), true.astype(np.longdouble)
    with np.errstate(all="ignore"):
        values = got[wrong]
        if np.unique(true[wrong]).size < LEAST:
            return None
        if (values == values[0]).all() or np.isnan(values).all():
            return f"is {values[0]!s}"
        for words, rule, valid in _rules(got, true, wrong):
            at = wrong & valid
            if at.sum() >= LEAST and explains(rule[at], got[at], true[at]):
                return words
    return None


def explains(rule: Array, got: Array, true: Array) -> bool:
    """Tells whether nearly all of these results agree with a rule, and are much nearer to it than to the truth."""
    apart = np.abs(got - rule)
    near = (apart <= NEAR * np.abs(rule)) & (BETTER * apart <= np.abs(got - true)) & (got != true)
    return bool(near.mean() >= SHARE)


def _rules(got: Array, true: Array, wrong: Array) -> Iterator[tuple[str, Array, Any]]:
    """Yields rules: a text, the values by the rule, and the elements for which it holds."""
    ratio = np.median((got / true)[wrong & np.isfinite(got / true) & (true != 0)])
    yield "has the wrong sign", -true, True
    if ratio != 0:
        yield f"is {float(ratio):.6g} times the true value", ratio * true, True
    apart = np.median((got - true)[wrong & np.isfinite(got - true)])
    yield f"is {abs(float(apart)):.6g} {'less' if apart < 0 else 'more'} than the true value", true + apart, True
    for axis, extent in enumerate(true.shape):
        along = f" along axis {axis}" if true.ndim > 1 else ""
        yield f"has the value that belongs to the other end{along}", np.flip(true, axis), True
        for step in (1, -1):
            position = np.arange(extent).reshape([-1 if each == axis else 1 for each in range(true.ndim)])
            how = "1 after it" if step > 0 else "1 before it"
            words = f"has the value that belongs to the element {how}{along}"
            yield words, np.roll(true, -step, axis), (position + step >= 0) & (position + step < extent)
    if true.ndim == 2:
        yield "has the value that belongs to the transposed index", true.T.reshape(true.shape), True
