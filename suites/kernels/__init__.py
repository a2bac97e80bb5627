"""Holds the parts of kernels: the classes of kernels and backends, and a toolkit for each language."""
