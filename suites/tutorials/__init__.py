"""Tutorials: percent-format scripts that editors show as notebooks, whose asserts check what their text claims.

Each runs by itself (``python suites/tutorials/numba_cpu.py``), and all of them run as tests.
"""
