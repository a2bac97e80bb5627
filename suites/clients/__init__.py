"""Runs the tests of libraries that exist with kernel-bridge in the place of what they call kernels with."""
