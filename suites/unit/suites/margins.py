"""States true results with a margin of a few roundings, for tests of what judges results."""

import numpy as np

from suites.numerics.error_model import Expected, finfo


def within(value, dtype, ulps=1.0, margin=0.0, **more):
    """A result that may be off by ``ulps`` units of u and by ``margin``; a subnormal one may be flushed to zero."""
    info, value = finfo(dtype), np.asarray(value)
    with np.errstate(all="ignore"):
        relative = np.where(np.isfinite(value), ulps * float(info.eps) / 2 * np.abs(value), 0)
    return Expected(value, np.dtype(dtype), relative + margin + float(info.tiny), **more)
