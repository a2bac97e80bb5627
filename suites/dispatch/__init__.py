"""Measures the cost of a call: the same small add, through each way to call a kernel from JAX.

Contributors run ``nox -s dispatch``.
"""
