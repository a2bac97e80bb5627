"""Judges times across processes: ratios with intervals, ties, verdicts, and how often verdicts err.

Pure functions of numbers. They know no records. `verdict_codes`, `intervals` and `means` import no NumPy, so the
package imports fast; SciPy is imported when an interval or a test needs it.
"""
