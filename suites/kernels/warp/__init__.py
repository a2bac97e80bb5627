"""Holds the building blocks of Warp kernels."""
