"""Checks kernels while they run, see :func:`bridge.debug_mode`; serves operators and kernels that are called alone."""
