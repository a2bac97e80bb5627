"""Shapes are declared by the names of axes, and inputs of other ranks, indices and flags need no code."""

import jax.numpy as jnp
import numba
import numpy as np
import pytest
import warp as wp

from reports import Status
from suites import Operator, OperatorError
from suites.backends import BACKENDS
from suites.checks.judging.cell_verdict import judge_kernel
from suites.declare.contradictions import verify


@numba.njit
def matvec(a, v, out):
    for i in range(a.shape[0]):
        total = a.dtype.type(0)
        for j in range(a.shape[1]):
            total += a[i, j] * v[j]
        out[i] = total


def _matvec(**fields):
    return Operator(name="matvec", reference=lambda a, v: jnp.dot(a, v), kernels={"numba": matvec}, **fields)


def test_equal_names_are_equal_extents_and_others_differ():
    operator = _matvec(shapes=("m n", "n"))
    a, v = operator.sample("float64", 100, 0)
    assert a.shape == (10, 12)
    assert v.shape == (12,)
    few, more = (operator.sample("float64", size, 0)[0].shape for size in (63, 64))
    assert few[0] == more[0]
    assert few[1] != more[1]
    assert a.dtype == v.dtype == np.float64
    verify(operator)
    assert judge_kernel(operator, BACKENDS["numba"], operator.sample("float32", 100, 0)).status is Status.PASSED
    assert not np.array_equal(operator.sample("float64", 100, 1)[0], a)


def test_dtypes_indices_ranges_numbers_and_scalars_are_declared_in_words():
    operator = Operator(
        name="picked",
        reference=lambda x, i, flag, c, k, s: (x[i] * s, flag, c, k),
        kernels={"numba": matvec},
        shapes=("rows 3", "int32 k < rows", "bool k", "complex64 2", "int8 k in -5..5", ""),
    )
    x, i, flag, c, k, s = operator.sample("float32", 300, 0)
    assert x.shape == (100, 3)
    assert (i.dtype, flag.dtype, c.dtype, k.dtype) == (np.int32, bool, np.complex64, np.int8)
    assert (c.shape, s.shape) == ((2,), ())
    assert 0 <= i.min() <= i.max() < 100
    assert -5 <= k.min() < 0 < k.max() <= 5
    assert operator.domain_of(1).limits(i.dtype, (x, i)) == (0, 99)
    assert operator.domain_of(4).limits(k.dtype, ()) == (-5, 5)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (("m-n",), r"matvec: shapes\[0\] is 'm-n', expected the names of its axes"),
        (("int32 k < m",), "no input has the axis 'm'"),
        (3, "expected a text for each input"),
        (("int8 n in 5..2",), "leaves no integer"),
    ],
)
def test_what_is_no_shape_is_refused(given, message):
    with pytest.raises((OperatorError, TypeError), match=message if given != 3 else None):
        _matvec(shapes=given)


def test_a_reference_that_does_not_take_vectors_is_refused_with_a_line_to_paste():
    operator = Operator(name="matvec", reference=lambda a, v: jnp.einsum("ij,j->i", a, v), kernels={"numba": matvec})
    with pytest.raises(OperatorError, match=r'default inputs a and v are float32\[33\]; .*shapes=\("m n", "n"\)'):
        verify(operator)


@wp.kernel
def lengths(x: wp.array(dtype=wp.vec3), out: wp.array(dtype=float)):
    i = wp.tid()
    out[i] = wp.length(x[i])


def test_a_kernel_that_does_not_take_the_default_inputs_is_refused_once_with_a_line_to_paste():
    rows = Operator(name="rows", reference=lambda a, v: a + v, kernels={"numba": matvec})
    with pytest.raises(OperatorError, match=r'no kernel takes the default inputs \(numba: .*shapes=\("m n", "n"\)'):
        verify(rows)
    vectors = Operator(name="lengths", reference=jnp.abs, kernels={"warp": lengths}, dtypes=("float32",))
    with pytest.raises(OperatorError, match=r'no kernel takes the default inputs \(warp: .*shapes=\("n 3",\)'):
        verify(vectors)


def test_each_axis_is_empty_once_unless_the_reference_needs_it():
    total = Operator(name="total", reference=lambda a: jnp.sum(a, axis=1), kernels={"numba": matvec}, shapes=("m n",))
    found = {name: inputs[0].shape for name, inputs in total.edges("float32").items()}
    assert found == {"empty_m": (0, 45), "empty_n": (46, 0)}
    largest = Operator(name="most", reference=lambda a: jnp.max(a, axis=1), kernels={"numba": matvec}, shapes=("m n",))
    assert list(largest.edges("float32")) == ["empty_m"]
    rows = Operator(name="rows", reference=lambda a, k: a[k], kernels={"numba": matvec}, shapes=("m n", "int32 k < m"))
    assert set(rows.edges("float32")) == {"empty_n", "empty_k"}


def test_a_square_matrix_needs_one_name():
    operator = Operator(name="trace", reference=jnp.trace, kernels={"numba": matvec}, shapes=("n n",))
    assert operator.sample("float32", 33, 0)[0].shape == (6, 6)
