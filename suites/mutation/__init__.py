"""Puts one small fault at a time into the source of right kernels, to measure which faults the checks see.

The mutants of :mod:`suites.mutants` were written by people who know the checks. Here nobody chooses: the files of this
folder find every place in a kernel where a fault of a known kind fits. ``kernel-bridge mutate`` makes these mutants,
runs the checks on each, and prints how many were caught.
"""
