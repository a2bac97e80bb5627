"""Timing measures what it says: every call in the loop happens, on unchanged inputs."""

import jax
import jax.numpy as jnp
import numba
import numpy as np
import pytest

from suites.backends import BACKENDS
from suites.mutants.memory import address_of_zeros, array_at
from suites.ops import operators
from suites.timing.loops import Programs, can_chain, chain, written_input
from suites.timing.timed_cell import stages

CALLS, UNEQUAL = (address_of_zeros(1, np.int64) for _ in range(2))
FIRST = 5


@numba.njit
def counted_gather(indices, x, out):
    """Counts its calls, and those whose first index is another than it was."""
    array_at(CALLS, 1, np.int64)[0] += 1
    array_at(UNEQUAL, 1, np.int64)[0] += indices[0] != FIRST
    for i in range(out.size):
        out[i] = x[indices[i]]


def _struct(shape, dtype):
    return jax.ShapeDtypeStruct(shape, dtype)


def _count(address):
    return int(array_at(address, 1, np.int64)[0])


def test_chained_calls_all_happen_on_unchanged_integers():
    """Floats as indices would lie far outside of ``x``, and crash the process."""
    indices, x = np.array([FIRST, 0, 7, *range(8)], np.int32), 1000 * np.arange(8, dtype=np.int32)
    outs = [_struct(indices.shape, np.float32)]
    call = BACKENDS["numba"].build(counted_gather, outs)
    programs = Programs.of(call, outs, (indices, x))
    calls, unequal = _count(CALLS), _count(UNEQUAL)
    (result,) = programs.chained(17, [indices, x])
    assert np.array_equal(result, x[indices])
    assert (_count(CALLS) - calls, _count(UNEQUAL) - unequal) == (17, 0)


def test_chained_calls_depend_on_each_other_as_far_as_xla_can_know():
    outs = [_struct((8,), np.float32)]
    call = BACKENDS["numba"].build(operators()["add"].kernels[BACKENDS["numba"]], outs)
    x = jnp.arange(1.0, 9.0)
    program = chain(lambda x: [2 * each for each in jax.tree.leaves(call(x, jnp.zeros(8)))], outs, [x])
    assert [float(program(4, changes, [x])[0][0]) for changes in (False, True)] == [2, 16]


@pytest.mark.parametrize(
    ("inputs", "out", "index"),
    [
        ([((9,), "int32"), ((4,), "float32"), ((5,), "float32")], ((3,), "float32"), 2),
        ([((9,), "int32"), ((), "float64")], ((3,), "float32"), 0),
        ([((0,), "float32"), ((), "int8")], ((3,), "float32"), 1),
        ([((0,), "float32")], ((3,), "float32"), None),
        ([((2,), "float32")], ((0,), "float32"), None),
        ([], ((3,), "float32"), None),
    ],
    ids=["dtype_of_the_output", "largest", "no_empty_one", "only_empty_ones", "empty_output", "no_input"],
)
def test_element_would_be_written_where_it_fits_best(inputs, out, index):
    arrays = [_struct(shape, np.dtype(dtype)) for shape, dtype in inputs]
    outs = [_struct(out[0], np.dtype(out[1]))]
    assert written_input(outs, arrays) == index
    assert can_chain(outs, arrays) == (index is not None)


def test_stages_are_told_apart():
    operator = operators()["add"]
    found = stages(operator, BACKENDS["jnp"], operator.sample("float32", 10, 0))
    assert all(ms > 0 for ms in (found.trace_ms, found.lower_ms, found.compile_ms, found.first_call_ms))
