"""Gives Numba CPU kernels an exponential function that LLVM vectorises, with a proven bound of its error."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal, localcontext
from typing import Any

import numpy as np
from numba.extending import intrinsic, overload

from suites.kernels.numba_cpu.lanes import Lanes, in_all, kept_within

_DEGREES = {"float32": 6, "float64": 11}
"""The least degrees with which polynomials are off by less than a tenth of a rounding, see :meth:`Reduction.of`."""

_DIGITS = 50


def exponential(x):  # type: ignore[no-untyped-def]
    """The exponential of a float32 or float64, or of lanes of them: off by at most 1.5 units in the last place.

    Results that are too large are infinity, and those too small are zero. NaN gives NaN. Subnormal results are rounded
    once more. There is no branch and no call, so LLVM vectorises a loop of it.
    """
    raise NotImplementedError("for kernels only")


@dataclass(frozen=True)
class Reduction:
    """The constants of :func:`exponential` for a dtype.

    The exponential is ``2**n * exp(r)``, where n is the integer next to ``x / ln 2``, and ``r = x - n ln 2`` is at most
    ``(ln 2) / 2``. A polynomial gives ``exp(r)``.

    Attributes:
        bits: Bits of a significand without its leading one.
        bias: The exponent field of the number one.
        shifter: A number whose last place is worth one: adding it rounds to an integer, which the low bits then hold.
        inverse: ``1 / ln 2``.
        high: The first part of ln 2, with so few bits that its product with n is exact.
        low: The rest of ln 2.
        coefficients: Of the polynomial; the highest power comes first.
        lowest: The exponential of this and of all below is zero, even where subnormal numbers are kept.
        highest: The exponential of this and of all above is infinity.
    """

    bits: int
    bias: int
    shifter: float
    inverse: float
    high: float
    low: float
    coefficients: tuple[float, ...]
    lowest: float
    highest: float

    @classmethod
    @functools.cache
    def of(cls, dtype: str) -> Reduction:
        """The numbers for ``"float32"`` or ``"float64"``.

        The polynomial of degree d goes through ``exp`` at the zeros of Chebyshev's polynomial of degree d + 1, on the
        interval from -h to h with ``h = (ln 2) / 2``. The theorem on the error of interpolation bounds its relative
        error by ``exp(2 h) h**(d + 1) / (2**d (d + 1)!)``: 3.7e-9 for float32 and 6.1e-18 for float64. A rounding is
        6.0e-8 and 1.1e-16.
        """
        info = np.finfo(np.dtype(dtype))
        bits, bias = int(info.nmant), 1 - int(info.minexp)
        with localcontext() as context:
            context.prec = _DIGITS
            ln2 = Decimal(2).ln()
            short = 1 << (bits - bias.bit_length())  # n has one bit more than bias.bit_length(), with its sign
            high = Decimal(int(ln2 * short)) / short
            return cls(
                bits=bits,
                bias=bias,
                shifter=1.5 * 2.0**bits,
                inverse=float(1 / ln2),
                high=float(high),
                low=float(ln2 - high),
                coefficients=tuple(map(float, interpolated(_DEGREES[dtype], ln2 / 2))),
                lowest=float((info.minexp - bits - 2) * ln2),
                highest=float((bias + 2) * ln2),
            )


def interpolated(degree: int, half: Decimal) -> list[Decimal]:
    """Coefficients, the highest power first, of the polynomial through ``exp`` at Chebyshev's points of [-half, half].

    Newton's form with divided differences is multiplied out. All numbers have :data:`_DIGITS` digits, except for the
    places of the points: these need not be exact.
    """
    count = degree + 1
    points = [half * Decimal(math.cos(math.pi * (2 * k + 1) / (2 * count))) for k in range(count)]
    differences = [point.exp() for point in points]
    for order in range(1, count):
        for k in range(count - 1, order - 1, -1):
            differences[k] = (differences[k] - differences[k - 1]) / (points[k] - points[k - order])
    coefficients = [differences[-1]]
    for k in range(count - 2, -1, -1):  # p(x) becomes p(x) * (x - points[k]) + differences[k]
        shifted = [*coefficients, Decimal(0)]
        for place, coefficient in enumerate(coefficients):
            shifted[place + 1] -= points[k] * coefficient
        shifted[-1] += differences[k]
        coefficients = shifted
    return coefficients


# The error, in units u of half the last place of numbers between 1 and 2. Scaling by powers of two is exact, where the
# result is no subnormal number, so only ``exp(r)`` counts.
#
# Reduction: n * high and its difference from x are exact. The difference from n * low is at most 0.35, so its rounding
# is at most 0.25 u, and the one of n * low is far below. An error of r is a relative error of exp(r).
#
# Horner's rule, ``p = 1 + r q``, has its roundings in fused steps. If r is positive, p is in [1, 1.42]: the last step
# is off by u, and q < 1.2 by u before it is multiplied by 0.35; all steps before are off by 0.07 u: 1.42 u. With
# 0.25 * 1.42 u of the reduction and 0.1 u of the polynomial, these are 1.9 u. A unit in the last place is 2 u there:
# 0.95 units. If r is negative, p is in [0.7, 1], q in [0.8, 1], and each rounding half of that: 0.71 u, with 0.25 u
# and 0.1 u as before 1.06 u. A unit in the last place is u there: 1.06 units. Without fused steps each product is
# rounded as well: r q by 0.25 u, and the ones before by 0.07 u. These are 1.4 units.
#
# Adding ``shifter`` leaves n in the low bits. A shift to the left makes an integer the exponent of a float. Since n
# goes from below the smallest exponent to above the largest, the scale is the product of two powers of two.


@overload(exponential, jit_options={"fastmath": {"contract"}, "forceinline": True})
def _exponential(x):  # type: ignore[no-untyped-def]
    dtype = str(x.dtype if isinstance(x, Lanes) else x)
    return exponential_by(Reduction.of(dtype), dtype)


def exponential_by(numbers: Reduction, dtype: str) -> Callable[..., Any]:
    """The Python function that Numba compiles for :func:`exponential`.

    A kernel with a loop of numbers leaves the lanes to LLVM. One that keeps lanes itself has no single numbers at the
    end of its loop.

    Args:
        numbers: The constants of its reduction and polynomial.
        dtype: ``"float32"`` or ``"float64"``.
    """
    real, integer = getattr(np, dtype), getattr(np, f"int{np.dtype(dtype).itemsize * 8}")
    shifter, inverse, high, low = map(real, (numbers.shifter, numbers.inverse, numbers.high, numbers.low))
    leading, second, *others = map(real, numbers.coefficients)
    coefficients = tuple(others)
    lowest, highest = real(numbers.lowest), real(numbers.highest)
    bits, bias = integer(numbers.bits), integer(numbers.bias)

    def exponential(x):  # type: ignore[no-untyped-def]
        inside = kept_within(x, lowest, highest)
        shifted = inside * inverse + shifter
        n = shifted - shifter
        rest = (inside - n * high) - n * low
        value = leading * rest + second
        for coefficient in coefficients:
            value = value * rest + coefficient
        return times_power(value, shifted, shifter, bits, bias)

    return exponential


@intrinsic
def times_power(typingctx, value, shifted, shifter, bits, bias):  # type: ignore[no-untyped-def]
    """``value * 2**n`` of floats, or of lanes of them. The bits of ``shifted`` and ``shifter`` differ by n.

    An exponent lies above ``bits`` other bits, and is larger by ``bias``.
    """

    def codegen(context, builder, signature, args):  # type: ignore[no-untyped-def]
        result, shifted, *numbers = args
        if isinstance(value, Lanes):
            numbers = [in_all(builder, number, value.count) for number in numbers]
        shifter, bits, bias = numbers
        exponent = builder.sub(builder.bitcast(shifted, bits.type), builder.bitcast(shifter, bits.type))
        half = builder.ashr(exponent, bits.type([1] * value.count if isinstance(value, Lanes) else 1))
        for part in (half, builder.sub(exponent, half)):
            power = builder.shl(builder.add(part, bias), bits)
            result = builder.fmul(result, builder.bitcast(power, result.type))
        return result

    return value(value, shifted, shifter, bits, bias), codegen
