"""Kernels that look element-wise, or hide that they are not: each gives other results in place, and is refused."""

from typing import Any

import numba
import numpy as np
import pytest
from numba import prange, types

from bridge.languages.numba_cpu.source_rules import follow, source_of
from bridge.source.element_wise import in_place_pairs
from bridge.source.language_rules import LanguageRules

SIZE = 64
ATTACKS: list[Any] = []


def attack(kernel):
    ATTACKS.append(kernel)
    return kernel


@attack
@numba.njit
def by_a_comprehension(x, out):
    for i in range(1, x.size):
        out[i] = [x[j] for j in range(i - 1, i + 1)][0]  # noqa: RUF015 - this is the attack


@numba.njit
def earlier(x):
    for i in range(x.size - 1):
        yield x[i]


@attack
@numba.njit
def by_a_generator(x, out):
    i = 1
    for value in earlier(x):
        out[i] = value
        i += 1


@attack
@numba.njit
def by_enumerate(x, out):
    for i, _ in enumerate(x):
        out[x.size - 1 - i] = x[i]


@attack
@numba.njit
def by_zip(x, out):
    i = 0
    for _, value in zip(x[:-1], x[1:]):  # noqa: B905, RUF007 - Numba has neither strict nor pairwise
        out[i + 1] = value + x[i]
        i += 1  # noqa: SIM113 - this is the attack


@attack
@numba.njit
def by_an_inner_function(x, out):
    def previous(i):
        return x[max(i - 1, 0)]

    for i in range(x.size):
        out[i] = previous(i)


@attack
@numba.njit
def by_a_lambda(x, out):
    previous = lambda i: x[max(i - 1, 0)]  # noqa: E731
    for i in range(x.size):
        out[i] = previous(i)


@attack
@numba.njit
def by_try(x, out):
    for i in range(x.size):
        try:
            out[i] = 1
            if x[i] > 0:
                raise ValueError
        except Exception:
            out[i] = x[i] + 2


@attack
@numba.njit
def by_negative_indices(x, out):
    for i in range(x.size):
        out[i] = x[-i]


@attack
@numba.njit
def by_slices(x, out):
    for i in range(1, x.size):
        out[i : i + 1] = x[i - 1 : i]


@attack
@numba.njit
def by_a_flat_view(x, out):
    for i in range(1, x.size):
        out[i] = x.flat[i - 1]


@attack
@numba.njit
def by_a_reshaped_view(x, out):
    pairs = x.reshape(x.size // 2, 2)
    for i in range(1, pairs.shape[0]):
        out[i] = pairs[i // 2, 0] + 1


@attack
@numba.njit
def by_a_view(x, out):
    view = x[::1]
    for i in range(1, x.size):
        out[i] = view[i - 1]


@attack
@numba.njit
def by_a_step_back(x, out):
    for i in range(x.size - 1, 0, -1):
        out[i - 1] = x[i]
        out[i] = x[i - 1]


@attack
@numba.njit
def by_two_strides(x, out):
    for i in range(x.size // 2):
        out[i + i] = x[i]


@attack
@numba.njit
def by_a_late_break(x, out):
    for i in range(x.size):
        j = i
        while j < x.size:
            if j > i + 1:
                break
            out[j] = x[i]
            j += 1


@attack
@numba.njit
def by_else_of_a_loop(x, out):
    for i in range(x.size):
        out[i] = x[i] + 1
    else:
        out[0] = x[1]


@attack
@numba.njit
def by_a_carried_value(x, out):
    i = 0
    for _ in range(x.size - 1):
        out[i + 1] = x[i]
        i += 1  # noqa: SIM113 - this is the attack


@attack
@numba.njit
def by_an_exchange_of_indices(x, out):
    i, j = 0, 1
    for _ in range(x.size):
        i, j = j, i
        out[i] = x[j] + 1


@attack
@numba.njit
def by_an_index_of_one_branch(x, out):
    for i in range(x.size):
        j = 0
        if i % 2:
            j = i
        out[j] = x[j] + 1


@attack
@numba.njit
def by_more_arguments(x, *rest):
    for i in range(1, x.size):
        rest[0][i] = x[i - 1]


@attack
@numba.njit
def by_a_moving_limit(x, out):
    for first in range(0, x.size, 4):
        i = first
        while i < min(i + 4, x.size):
            out[i] = x[i] + 1
            i += 1


@attack
@numba.njit
def by_a_limit_that_is_no_number_of_this_width(x, out):
    for first in range(0, x.size, 4):
        i = np.uint64(first)
        while i < min(np.uint64(first) - np.uint64(first + 1), np.uint64(x.size)):
            out[i] = x[i] + 1
            i += np.uint64(1)


@attack
@numba.njit
def by_an_overflow(x, out):
    for i in range(8):
        out[i * 4611686018427387904 * 4] = x[i * 4611686018427387904 * 4] + 1


@attack
@numba.njit
def by_an_overflow_of_a_loop(x, out):
    for i in range(0, x.size // 10 * 1152921504606846976, 1152921504606846976):
        j = i * 4
        if 0 <= j < x.size:
            out[j] = x[j] + 1


@attack
@numba.njit
def by_an_overflow_of_a_step(x, out):
    i = 0
    turn = 0
    while turn < 5:
        if 0 <= i < x.size:
            out[i] = x[i] + 1
        turn += 1
        i += 4611686018427387904


@attack
@numba.njit
def by_a_fraction(x, out):
    for i in range(x.size):
        out[int(i * 0.5)] = x[int(i * 0.5)] + 1


@numba.njit
def keep(x, kept, i):
    kept[1], kept[0] = kept[0], x[i]
    return x.size + 1


@attack
@numba.njit
def by_the_test_of_a_loop(x, out):
    kept = np.zeros(2)
    for first in range(x.size):
        i = first
        while i < min(first + 1, keep(x, kept, first)):  # runs twice
            out[i] = kept[1] + 7
            i += 1


@numba.njit
def shift(source, target, last):
    for i in range(1, last):
        target[i] = source[i - 1]


@attack
@numba.njit
def by_a_helper(x, out):
    shift(x, out, out.size)


@attack
@numba.njit
def by_a_helper_with_names(x, out):
    shift(target=out, source=x, last=out.size)


@numba.njit
def twice(x, out, again):
    for i in range(out.size):
        out[i] = x[i] + 1
    if again:
        twice(x, out, again - 1)


@attack
@numba.njit
def by_recursion(x, out):
    twice(x, out, 2)


@numba.njit
def same(array):
    return array


@attack
@numba.njit
def by_a_returned_array(x, out):
    for i in range(1, x.size):
        out[i] = same(x)[i - 1]


@attack
@numba.njit
def by_a_function_of_a_tuple(x, out):
    functions = (shift, shift)
    functions[0](x, out, out.size)


@numba.vectorize
def plus_one(value):
    return value + 1


@attack
@numba.njit
def by_a_ufunc(x, out):
    for _ in range(out.size):
        plus_one(x, out)


@numba.guvectorize([(types.float64[:], types.float64[:])], "(n)->(n)")
def moved(x, out):
    for i in range(1, x.size):
        out[i] = x[i - 1]


@attack
@numba.njit
def by_a_gufunc(x, out):
    moved(x, out)


@numba.stencil
def neighbours(x):
    return x[-1] + x[1]


@attack
@numba.njit
def by_a_stencil(x, out):
    neighbours(x, out=out)


@attack
@numba.njit
def by_pairs_of_loops(x, out):
    for i in range(x.size):
        out[i] = x[i] + 1
    for i in range(x.size):
        out[i] = out[i] + x[i]


@attack
@numba.njit(parallel=True)
def by_a_loop_of_threads(x, out):
    for i in prange(x.size):
        out[i] = x[x.size - 1 - i]


def results(kernel, out):
    """The output of a run on an input, which may be the output itself."""
    x = out if out is not None else np.arange(1.0, SIZE + 1)
    out = x.copy() if out is None else out
    kernel(x, out)
    return out


@pytest.mark.parametrize("kernel", ATTACKS, ids=lambda kernel: kernel.__name__)
def test_a_kernel_that_hides_what_it_does_is_refused(kernel):
    assert in_place_pairs(source_of(kernel), [1, 1], 1, LanguageRules(follow=follow)) == set()
    apart, shared = results(kernel, None), results(kernel, np.arange(1.0, SIZE + 1))
    assert not np.array_equal(apart, shared)
