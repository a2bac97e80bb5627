"""Atomic operations are found in the source of a kernel and of the functions that it refers to."""

import numba
import warp as wp
from numba import cuda

from suites.kernels.atomic_operations import has_atomics
from suites.ops import operators


@numba.njit
def add_first(x, out):
    cuda.atomic.add(out, 0, x[0])


@cuda.jit
def through_a_helper(x, out):
    add_first(x, out)


@cuda.jit
def without(x, out):
    out[cuda.grid(1)] += x[cuda.grid(1)]


def launches(x, out, stream):
    through_a_helper[1, 1, stream](x, out)


def launches_none(x, out, stream):
    without[1, 1, stream](x, out)


@wp.kernel
def in_place(x: wp.array(dtype=float), out: wp.array(dtype=float)):
    out[0] += x[wp.tid()]


@wp.kernel
def copied(x: wp.array(dtype=float), out: wp.array(dtype=float)):
    out[wp.tid()] = x[wp.tid()]


def test_kernels_helpers_and_callables_are_followed():
    assert all(map(has_atomics, (through_a_helper, launches)))
    assert not any(map(has_atomics, (without, launches_none)))


def test_warp_updates_elements_atomically():
    assert has_atomics(in_place, warp=True)
    assert not has_atomics(copied, warp=True)
    assert not has_atomics(in_place)  # as another language would have it


def test_the_built_in_operators_declare_what_is_found():
    for operator in operators().values():
        for kernel in operator.kernels.values():
            declared = getattr(getattr(kernel, "given", kernel), "atomic", None)
            assert declared is not None or not kernel.adds_atomically, operator.name
