"""Holds what kernels are made of: the classes of kernels and backends, and a toolkit for each language."""
