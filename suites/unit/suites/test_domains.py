"""A domain holds what an author says, fits drawn values to it, and is guessed from samples of integers alone."""

import jax.numpy as jnp
import numba
import numpy as np
import pytest
import warp as wp

from reports import Status
from suites import Domain, Operator, OperatorError
from suites.backends import BACKENDS
from suites.checks.drawn.drawn_inputs import battery
from suites.checks.drawn.value_patterns import pattern_names, patterned
from suites.checks.judging.cell_verdict import judge_kernel
from suites.declare.contradictions import verify
from suites.ops import operators
from suites.unit.bridge.kernels import product
from suites.unit.suites.ops_small import gather

DOMAINS = {
    "any": Domain(),
    "finite": Domain(finite=True),
    "positive": Domain(least=0, zero=False),
    "not zero": Domain(zero=False),
    "between": Domain(least=-0.5, most=0.75),
    "below an extent": Domain(below=lambda x: x.size),
    "normal": Domain(normal=True, finite=True),
    "ascending": Domain(finite=True, ascending=True),
}


@pytest.mark.parametrize("dtype", ["float32", "float16", "float64", "int32", "uint8", "int64", "uint64"])
@pytest.mark.parametrize("domain", DOMAINS.values(), ids=DOMAINS)
def test_every_pattern_is_fitted_to_every_domain(domain, dtype):
    sample = np.arange(33).astype(dtype)
    if domain is DOMAINS["between"]:
        sample = np.zeros(33, dtype)
    if domain is DOMAINS["positive"] or domain is DOMAINS["not zero"]:
        sample = sample + np.dtype(dtype).type(1)
    for name in pattern_names(np.dtype(dtype)):
        fitted = domain.fitted(patterned(name, sample, np.random.default_rng(1)), sample, (sample,))
        assert fitted.dtype == sample.dtype
        assert fitted.shape == sample.shape
        assert domain.outside(fitted, (sample,)) is None, name


@pytest.mark.parametrize(
    ("domain", "array", "outside"),
    [
        (Domain(finite=True), np.array([0.0, np.inf]), "inf"),
        (Domain(zero=False), np.array([1, 0]), "0"),
        (Domain(normal=True), np.array([1e-40], np.float32), "e-40"),
    ],
)
def test_what_is_outside_is_named(domain, array, outside):
    assert outside in domain.outside(array, (array,))


@pytest.mark.parametrize(
    "fields", [{"least": 2, "most": 1}, {"least": "0"}, {"below": 1.5}, {"most": True}], ids=lambda fields: str(fields)
)
def test_domain_that_makes_no_sense_is_refused(fields):
    with pytest.raises(OperatorError, match="Domain: "):
        Domain(**fields)


def _operator(reference, kernel=gather, **fields):
    """An operator whose inputs matter here; no kernel of it is called unless it is given."""
    return Operator(name="some", reference=reference, kernels={"numba": kernel}, **fields)


def _gathering(sample, **fields):
    return _operator(lambda i, x: x[i], sample=sample, dtypes=["float32"], **fields)


def _indices(dtype, size, seed):
    random = np.random.default_rng(seed)
    return random.integers(0, size + 3, size).astype(np.int32), random.standard_normal(size + 3).astype(dtype)


def test_integers_that_look_like_indices_are_drawn_up_to_the_largest_of_the_sample():
    operator = _gathering(_indices)
    sample = operator.sample("float32", 33, 0)
    drawn = [inputs for _, inputs in battery(operator, "float32", 33, (0,))]
    assert len(drawn) > 40
    most = int(sample[0].max())
    assert 30 < most < 36
    assert all(inputs[0].min() >= 0 for inputs in drawn)
    assert {int(inputs[0].max()) for inputs in drawn} >= {0, most}
    assert max(int(inputs[0].max()) for inputs in drawn) == most
    assert any(np.isnan(inputs[1]).any() for inputs in drawn)


def test_structure_is_fixed_and_parameters_of_integers_too():
    assert operators()["csr_matvec"].domain_of(2).fixed

    def sample(dtype, size, seed):
        return np.full(1, 3, np.int32), np.random.default_rng(seed).standard_normal(size).astype(dtype)

    assert _gathering(sample).domain_of(0).fixed


@pytest.mark.parametrize("dtype", ["int32", "uint32", "uint64"])
def test_integers_in_no_order_take_every_value(dtype):
    def sample(dtype, size, seed):
        return np.random.default_rng(seed).integers(0, 100_000, size).astype(dtype)

    operator = _operator(lambda x: x + x, sample=sample, dtypes=[dtype])
    assert max(inputs[0].max() for _, inputs in battery(operator, dtype, 33, (0,))) == np.iinfo(dtype).max
    outside = Domain(ascending=True).outside(np.array([3, 1], dtype), ())
    assert outside == "elements that are not in ascending order"


@pytest.mark.parametrize("shape", [(), (1,)])
def test_a_single_number_takes_in_turn_every_value_that_breaks_kernels(shape):
    def sample(dtype, size, seed):
        return np.random.default_rng(seed).standard_normal(size).astype(dtype), np.full(shape, 3, np.int32)

    def drawn(**domains):
        operator = _operator(jnp.roll, sample=sample, dtypes=["float32"], **domains)
        return {int(inputs[1].item()) for _, inputs in battery(operator, "float32", 33, (0,))}

    assert {0, 1, -1, 32, -32, 33, -33, 34, -34, 2**31 - 1, -(2**31)} <= drawn(domains={1: Domain()})
    assert drawn() == {3}


@pytest.mark.parametrize("key", ["y", 2, -1])
def test_domain_of_an_unknown_input_is_refused(key):
    with pytest.raises(OperatorError, match="expected one of the inputs i, x or its index"):
        _ = _gathering(_indices, domains={key: Domain()}).effective_domains


def test_sample_outside_of_its_domain_is_a_contradiction():
    with pytest.raises(OperatorError, match=r"the sample of x has the value .*expected the domain"):
        verify(_gathering(_indices, domains={"x": Domain(least=100)}))


@pytest.mark.parametrize("dtype", ["float16", "int32"])
@pytest.mark.parametrize(
    "domain", [Domain(most=-2), Domain(least=2, most=3), Domain(ascending=True), Domain(zero=False)]
)
def test_default_sample_lies_in_the_declared_domain(domain, dtype):
    operator = _operator(lambda x: x + x, numba.njit(lambda x, out: None), dtypes=(dtype,), domains={"x": domain})
    (x,) = operator.sample(dtype, 500, 0)
    assert domain.outside(x, (x,)) is None
    assert len(np.unique(x)) > (1 if dtype == "int32" else 50)
    verify(operator)


# Shapes are declared by the names of axes; inputs of other ranks, indices and flags need no code.


def test_equal_names_are_equal_extents_and_others_differ():
    operator = _operator(lambda a, v: jnp.dot(a, v), product, shapes=("m n", "n"))
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
    shapes = ("rows 3", "int32 k < rows", "bool k", "complex64 2", "int8 k in -5..5", "")
    operator = _operator(lambda x, i, flag, c, k, s: (x[i] * s, flag, c, k), shapes=shapes)
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
        (("m-n",), r"some: shapes\[0\] is 'm-n', expected the names of its axes"),
        (("int32 k < m",), "no input has the axis 'm'"),
        (3, "expected a text for each input"),
    ],
)
def test_what_is_no_shape_is_refused(given, message):
    with pytest.raises((OperatorError, TypeError), match=message if given != 3 else None):
        _operator(lambda a, v: jnp.dot(a, v), shapes=given)


def test_a_reference_that_does_not_take_vectors_is_refused_with_a_line_to_paste():
    operator = _operator(lambda a, v: jnp.einsum("ij,j->i", a, v), product)
    with pytest.raises(OperatorError, match=r'default inputs a and v are float32\[33\]; .*shapes=\("m n", "n"\)'):
        verify(operator)


@wp.kernel
def lengths(x: wp.array(dtype=wp.vec3), out: wp.array(dtype=float)):
    i = wp.tid()
    out[i] = wp.length(x[i])


def test_a_kernel_that_does_not_take_the_default_inputs_is_refused_once_with_a_line_to_paste():
    rows = _operator(lambda a, v: a + v, product)
    with pytest.raises(OperatorError, match=r'no kernel takes the default inputs \(numba: .*shapes=\("m n", "n"\)'):
        verify(rows)
    vectors = Operator(name="lengths", reference=jnp.abs, kernels={"warp": lengths}, dtypes=("float32",))
    with pytest.raises(OperatorError, match=r'no kernel takes the default inputs \(warp: .*shapes=\("n 3",\)'):
        verify(vectors)


def test_each_axis_is_empty_once_unless_the_reference_needs_it():
    total = _operator(lambda a: jnp.sum(a, axis=1), shapes=("m n",))
    found = {name: inputs[0].shape for name, inputs in total.edges("float32").items()}
    assert found == {"empty_m": (0, 45), "empty_n": (46, 0)}
    largest = _operator(lambda a: jnp.max(a, axis=1), shapes=("m n",))
    assert list(largest.edges("float32")) == ["empty_m"]
    rows = _operator(lambda a, k: a[k], shapes=("m n", "int32 k < m"))
    assert set(rows.edges("float32")) == {"empty_n", "empty_k"}
