"""Writes numbers in few characters, for tables. None is a missing number."""

import math

_TIME_UNITS = (("ns", 1.0), ("µs", 1e3), ("ms", 1e6), ("s", 1e9))
_RATE_UNITS = (("", 1.0), ("k", 1e3), ("M", 1e6), ("G", 1e9), ("T", 1e12), ("P", 1e15))

DASH = "\N{EN DASH}"
TIMES = "\N{MULTIPLICATION SIGN}"

TIED = "="
"""Marks ties: several fastest backends, or a ratio whose interval includes 1."""

ABSENT = DASH
"""Stands for a missing number, which is never written as zero."""


def time_text(ns: float | None) -> str:
    """Returns nanoseconds with three significant digits, in a unit that suits them, such as `12.3 µs`."""
    if ns is None:
        return ABSENT
    name, factor = _time_unit(ns)
    return f"{_digits(ns / factor)} {name}"


def time_range_text(low_ns: float, high_ns: float, like_ns: float) -> str:
    """Returns `12.1-12.5` with a longer dash, in the unit that `time_text` chooses for `like_ns`."""
    factor = _time_unit(like_ns)[1]
    return f"{_digits(low_ns / factor)}{DASH}{_digits(high_ns / factor)}"


def ms_text(ms: float | None) -> str:
    """Returns milliseconds like `time_text`."""
    return ABSENT if ms is None else "0 ms" if ms == 0 else time_text(ms * 1e6)


def ratio_text(ratio: float | None) -> str:
    """Returns a ratio: two significant digits below a tenth, two decimals below ten, three significant digits above."""
    if ratio is None:
        return ABSENT
    if not math.isfinite(ratio):
        return str(ratio)
    if ratio < 0.0995:
        return f"{ratio:.2g}"
    return f"{ratio:.2f}" if ratio < 9.995 else _digits(ratio)


def percent_text(share: float) -> str:
    """Returns a share in percent, without the sign: `45`, `4.2`, `<0.1`, `1.2e+04`."""
    percent = share * 100
    if not math.isfinite(percent):
        return str(percent)
    if percent == 0:
        return "0"
    if percent < 0.1:
        return "<0.1"
    if percent < 9.95:
        return f"{percent:.1f}"
    return f"{percent:.0f}" if percent < 9999.5 else f"{percent:.1e}"


def ulp_text(ulp: float | None) -> str:
    """Returns a distance in ULP; a whole number has no decimals."""
    if ulp is None:
        return ABSENT
    if not math.isfinite(ulp) or ulp >= 1e5:
        return f"{ulp:.1e}" if math.isfinite(ulp) else str(ulp)
    return f"{ulp:.0f}" if ulp == int(ulp) or ulp >= 100 else f"{ulp:.2g}"


def count_text(count: int) -> str:
    """Returns a whole number with commas between thousands, such as `1,048,576`."""
    return f"{count:,}"


def rate_text(per_second: float, unit: str) -> str:
    """Returns a rate such as `4.02 TB/s`."""
    name, factor = next((entry for entry in reversed(_RATE_UNITS) if per_second >= entry[1]), _RATE_UNITS[0])
    return f"{_digits(per_second / factor)} {name}{unit}"


def bytes_text(count: float | None) -> str:
    """Returns a number of bytes such as `4.02 MB`, where a megabyte is a million bytes."""
    if count is None:
        return ABSENT
    return f"{count:.0f} B" if count < 1000 else rate_text(count, "B")


def interval_text(low: float | None, high: float | None) -> str:
    """Returns the ends of an interval of ratios, such as `0.98-1.02` with a longer dash."""
    return ABSENT if low is None or high is None else f"{ratio_text(low)}{DASH}{ratio_text(high)}"


def _time_unit(ns: float) -> tuple[str, float]:
    # The rounded time decides: 999.7 ns becomes 1.00 µs, not 1000 ns.
    rounded = float(f"{ns:.2e}")
    return next((entry for entry in reversed(_TIME_UNITS) if rounded >= entry[1]), _TIME_UNITS[0])


def _digits(value: float) -> str:
    """Returns three significant digits without an exponent; all digits before the point."""
    rounded = float(f"{value:.2e}")
    exponent = math.floor(math.log10(abs(rounded))) if rounded else 0
    return f"{rounded:.{max(0, 2 - exponent)}f}"
