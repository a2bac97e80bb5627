"""Decides whether results agree with a reference up to rounding, for ``tune`` and for ``debug_mode``.

Integers and booleans must be equal. NaN and infinities must be in the same places. For the other numbers, let ``r`` be
an element of the reference, and ``t`` the upper quartile of ``|r|``: a quarter of all elements that are finite and not
zero are at least as large. Then

1. no element may differ by more than ``e * max(|r|, t)``,
2. at most a quarter of the elements (but always one) may differ by more than ``e * |r|``; elements with ``r = 0`` do
   not count here,
3. differences below the smallest normal number of the dtype do not count, because hardware may flush them to zero.

``e`` is the relative tolerance::

    e = 8 u + 4 v sqrt(max(n, 64))

``u`` is the unit roundoff of the result's dtype: half of its ``eps``. The first term is for the few operations that
make one element, and for functions such as ``exp``, whose results differ by a few ``u`` between libraries. The second
term is for sums. The rounding errors of a sum of ``n`` numbers behave like a random walk, so they grow as ``sqrt(n)``
(Higham and Mary, A New Approach to Probabilistic Rounding Error Analysis, SIAM J. Sci. Comput. 41, 2019). An element
sums at most as many numbers as the largest argument has, if the kernel reads each number once: this count is ``n``.
``n`` counts as at least 64, because kernels of a few elements may still sum a series. Narrow dtypes are summed in
float32 or wider, so ``v`` is the smaller one of ``u`` and ``2**-24``. The factor 4 is for the errors of both sides, and
for the largest error among many elements.

Right kernels pass: another order of summation changes only rounding errors. These errors are large compared with
``|r|`` where the terms of an element cancel. Rule 1 compares such an element with ``t``, because its terms are about as
large as the terms of other elements. Rule 2 permits that terms cancel in a quarter of the elements.

Wrong kernels fail: a wrong index, a missing term, an element off by one or a block that was not written changes
elements by a large share of their size. That is far above ``e``, which is 7.6e-5 for float32 and 100 000 numbers. Rule
1 may miss wrong elements that are small. Rule 2 finds them if they are more than a quarter.

The limit: one missing term among ``n`` equal ones changes a sum by ``1 / n``. For float32 that is below ``e`` if ``n``
is above about 26 000. Two right sums of so many equal numbers can differ as much, because their rounding errors add up.

A kernel that rounds more than its dtype, such as a matrix product in TF32, needs another tolerance: ``rtol`` replaces
``e`` in both rules.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np

from bridge.errors import SignatureError

REFERENCE_BACKEND = "jnp"
"""The backend that the results of the other backends are compared with."""

OPERATION_ROUNDOFFS = 8
SUM_ROUNDOFFS = 4
LEAST_TERMS = 64
SUM_ROUNDOFF = 2.0**-24
QUARTER = 4
"""Divides a number of elements: for the upper quartile, and for the elements that rule 2 permits."""

_finfo: Any = jnp.finfo  # has no type annotations


def check_rtol(rtol: Any, name: str) -> None:
    """Raises SignatureError unless ``rtol`` is None or a relative tolerance: a number of at least 0."""
    known = isinstance(rtol, int | float | np.integer | np.floating) and not isinstance(rtol, bool)
    if rtol is not None and not (known and rtol >= 0):
        raise SignatureError(f"{name}: rtol is {rtol!r}, expected a number of at least 0, or None.")


def default_rtol(dtype: Any, argument_sizes: Sequence[int]) -> float:
    """The relative tolerance ``e`` of the module's docstring.

    Args:
        dtype: The dtype of the result, floating-point or complex.
        argument_sizes: The number of elements of each argument of the call.
    """
    unit = float(_finfo(dtype).eps) / 2
    terms = max((LEAST_TERMS, *argument_sizes))
    return OPERATION_ROUNDOFFS * unit + SUM_ROUNDOFFS * min(unit, SUM_ROUNDOFF) * math.sqrt(terms)


def is_inexact(dtype: Any) -> bool:
    """Whether numbers of this dtype are rounded. Numbers of other dtypes must be equal to the reference."""
    return bool(jnp.issubdtype(dtype, jnp.inexact))


def disagreeing(xp: Any, got: Any, expected: Any, argument_sizes: Sequence[int], rtol: float | None) -> tuple[Any, str]:
    """The elements of a result that do not agree with its reference; and the rule in words if numbers are rounded.

    Args:
        xp: The module of the arrays: ``numpy`` or ``jax.numpy``. The arrays may be traced.
        got: A result that has at least one element.
        expected: Its reference, of the same shape and dtype.
        argument_sizes: The number of elements of each argument of the call.
        rtol: Replaces the relative tolerance ``e`` of the module's docstring.
    """
    if not is_inexact(got.dtype):
        return got != expected, ""
    allowed = default_rtol(got.dtype, argument_sizes) if rtol is None else rtol
    tiny = float(_finfo(got.dtype).smallest_normal)
    wide = jnp.promote_types(got.dtype, jnp.float32)
    got, expected = got.astype(wide), expected.astype(wide)
    finite = xp.isfinite(got) & xp.isfinite(expected)
    same = _same(xp, got, expected)
    error = xp.abs(xp.where(finite, got, 0) - xp.where(finite, expected, 0))
    magnitude = xp.abs(xp.where(finite, expected, 0))
    counted = finite & (magnitude > 0)
    far = error > allowed * xp.maximum(magnitude, _upper_quartile(xp, magnitude, counted)) + tiny
    relatively_far = counted & (error > allowed * magnitude + tiny)
    too_many = _count(xp, relatively_far) > xp.maximum(_count(xp, counted) // QUARTER, 1)
    wrong = xp.where(finite, far | (relatively_far & too_many), ~same)
    return wrong, f" (relative error above {allowed:.2g})"


def _same(xp: Any, got: Any, expected: Any) -> Any:
    """True where elements are equal, or are both NaN. Compares real and imaginary parts separately."""
    if jnp.issubdtype(got.dtype, jnp.complexfloating):
        return _same(xp, got.real, expected.real) & _same(xp, got.imag, expected.imag)
    return (got == expected) | (xp.isnan(got) & xp.isnan(expected))


def _upper_quartile(xp: Any, magnitude: Any, counted: Any) -> Any:
    """The magnitude that a quarter of the counted elements reach or exceed; 0 if none is counted."""
    ordered = xp.sort(xp.where(counted, -magnitude, 0).reshape(-1))[: counted.size // QUARTER + 1]
    return -ordered[_count(xp, counted) // QUARTER]


def _count(xp: Any, marked: Any) -> Any:
    # JAX sums to 32 bits, which are too few for a sign.
    return xp.sum(marked, dtype=np.uint64 if xp is np else np.uint32)


def disagreement(
    results: Sequence[Any], references: Sequence[Any], argument_sizes: Sequence[int], rtol: float | None = None
) -> str | None:
    """Says on the host which result does not agree with its reference, and where; None if all agree.

    Args:
        results: Arrays of any shape and dtype.
        references: The right arrays.
        argument_sizes: The number of elements of each argument of the call.
        rtol: Replaces the relative tolerance ``e`` of the module's docstring.
    """
    for index, (result, reference) in enumerate(zip(results, references, strict=True)):
        got, expected = np.asarray(result), np.asarray(reference)
        if got.shape != expected.shape or got.dtype != expected.dtype:
            return f"result {index}: {got.dtype}{list(got.shape)}, expected {expected.dtype}{list(expected.shape)}"
        if not got.size:
            continue
        with np.errstate(all="ignore"):
            wrong, rule = disagreeing(np, got, expected, argument_sizes, rtol)
        if wrong.any():
            at = np.unravel_index(np.argmax(wrong), got.shape)
            where = f"the first at {[int(each) for each in at]}: {got[at]}, expected {expected[at]}"
            return f"result {index}: {int(wrong.sum())} of {got.size} elements differ, {where}{rule}"
    return None
