"""Derives true results and error bounds from a reference, for operators whose author declares none.

:mod:`~suites.numerics.derived.reference` walks through the operations of the reference. The modules ``rules``, ``sums``
and ``moves`` hold a rule for each operation: it takes estimates of the operands
(:mod:`~suites.numerics.derived.estimate`) and returns an estimate of the result. ``functions`` holds the largest error
of each function of one number.
"""

from suites.numerics.derived.reference import derived_truth as derived_truth
from suites.numerics.derived.reference import explain_truth as explain_truth

__all__ = ["derived_truth", "explain_truth"]
