"""Holds operators: several kernels under one name, of which JAX calls one."""
