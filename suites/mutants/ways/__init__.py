"""Right and wrong ways to compute the same, in plain NumPy: right ones must pass all drawn inputs, wrong ones must not.

Each :class:`Kind` has a reference and functions of NumPy arrays. Every right function computes in the tested dtype, or
in a wider one, by steps that a careful author could choose. Every wrong one has a mistake that an author could make,
within the declared values: all of the dtype, or of the domain.
"""

from suites.mutants.ways import choices as choices
from suites.mutants.ways import functions as functions
from suites.mutants.ways import sums as sums
from suites.mutants.ways.kind import KINDS as KINDS
