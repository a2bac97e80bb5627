"""Broken Numba kernels for the CPU."""

import numba

from suites.backends import Backend
from suites.mutants.mutant import mutant
from suites.ops.add import OPERATOR as ADD


@numba.njit
def unwritten_tail(x, y, out):
    for i in range(out.size - 1):
        out[i] = x[i] + y[i]


MUTANTS = (mutant(ADD, "unwritten_tail", Backend.NUMBA, unwritten_tail, "the last element is never written"),)
