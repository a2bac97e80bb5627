"""Holds broken Numba kernels whose faults are in the building blocks that use vector registers."""

from dataclasses import replace

import numba
import numpy as np

from suites.backends.backend import Backend
from suites.backends.numba_cpu_lanes import (
    add_products,
    first_lane,
    lane_count,
    larger_lanes,
    largest_lane,
    load_first_lanes,
    load_lanes,
    nan_lanes,
    store_sums,
    sum_of_lanes,
    zero_lanes,
)
from suites.backends.numba_cpu_math import Reduction, exponential_by
from suites.mutants.mutant import mutant
from suites.ops.matvec import OPERATOR as MATVEC
from suites.ops.max import OPERATOR as MAX
from suites.ops.sigmoid import OPERATOR as SIGMOID

_KNOWN = Reduction.of("float32")


def _sigmoid(**wrong):
    exponential = numba.njit(exponential_by(replace(_KNOWN, **wrong), "float32"))

    @numba.njit(error_model="numpy")
    def sigmoid(x, out):
        one = x.dtype.type(1)
        for i in range(out.size):
            out[i] = one / (one + exponential(-x[i]))

    return sigmoid


@numba.njit
def nan_of_last_lanes(x, out):
    """Looks for NaN only in the lanes that were read last."""
    width = lane_count(x)
    best = nan = load_first_lanes(x, 0, min(x.size, width), x[0])
    for start in range(width, x.size, width):
        lanes = load_first_lanes(x, start, x.size - start, x[0])
        best, nan = larger_lanes(best, lanes), lanes
    found = first_lane(nan_lanes(nan, nan)) < width
    out[0] = x.dtype.type(np.nan) if found else largest_lane(best)


@numba.njit
def without_rest(A, x, out):
    width = lane_count(x)
    for row in range(out.size):
        elements, total = A[row], zero_lanes(x)
        for j in range(0, x.size - x.size % width, width):
            total = add_products(total, load_lanes(elements, j), load_lanes(x, j))
        out[row] = sum_of_lanes(total)


@numba.njit
def whole_eights(A, x, out):
    """Leaves out the rows after the last eight."""
    width, zero, row = lane_count(x), x.dtype.type(0), 0
    while row + 8 <= out.size:
        a = b = c = d = e = f = g = h = zero_lanes(x)
        for j in range(0, x.size, width):
            left, i = x.size - j, row * x.size + j
            u = load_first_lanes(x, j, left, zero)
            a = add_products(a, load_first_lanes(A, i, left, zero), u)
            b = add_products(b, load_first_lanes(A, i + x.size, left, zero), u)
            c = add_products(c, load_first_lanes(A, i + 2 * x.size, left, zero), u)
            d = add_products(d, load_first_lanes(A, i + 3 * x.size, left, zero), u)
            e = add_products(e, load_first_lanes(A, i + 4 * x.size, left, zero), u)
            f = add_products(f, load_first_lanes(A, i + 5 * x.size, left, zero), u)
            g = add_products(g, load_first_lanes(A, i + 6 * x.size, left, zero), u)
            h = add_products(h, load_first_lanes(A, i + 7 * x.size, left, zero), u)
        store_sums(out, row, (a, b, c, d, e, f, g, h))
        row += 8


def _numba(of, name, kernel, fault):
    return mutant(of, name, Backend.NUMBA, kernel, fault, dtypes=("float32",))


MUTANTS = (
    _numba(
        SIGMOID,
        "dropped_term",
        _sigmoid(coefficients=(0.0, *_KNOWN.coefficients[1:])),
        "the polynomial of the exponential lacks its highest power",
    ),
    _numba(SIGMOID, "low_clamp", _sigmoid(highest=64.0), "the exponential of 64 stands for all above"),
    _numba(SIGMOID, "one_part_of_ln2", _sigmoid(low=0.0), "the argument is reduced by a rounded logarithm of two"),
    _numba(MAX, "nan_of_last_lanes", nan_of_last_lanes, "NaN counts only in the lanes that are read last"),
    _numba(MATVEC, "without_rest", without_rest, "columns beyond the last full lanes are left out"),
    _numba(MATVEC, "whole_eights", whole_eights, "rows after the last eight are left out"),
)
