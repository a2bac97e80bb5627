"""Judges times across processes: ratios with intervals, ties, verdicts, and how often verdicts err.

Pure functions of numbers. They know no records. `verdict_codes` imports neither NumPy nor SciPy, so the names of verdicts are
cheap; the other modules need both.
"""
