"""Derives true results and error bounds from a reference, for operators whose author declares none.

:mod:`suites.truth.derived.reference` walks through the operations of the reference. Each takes estimates of its operands
(:mod:`suites.truth.derived.estimate`) to one of its result, by the rules of the modules ``rules``, ``sums`` and ``moves``.
The module ``functions`` says how inexact a function may be.
"""

from suites.truth.derived.reference import derived_truth as derived_truth
from suites.truth.derived.reference import explain_truth as explain_truth

__all__ = ["derived_truth", "explain_truth"]
