"""Judges times across processes: ratios with intervals, ties, verdicts, and how often verdicts err.

The functions take numbers, and no records. `verdict_codes`, `intervals` and `means` import no NumPy, so the package
imports fast; SciPy is imported when an interval or a test needs it.
"""
