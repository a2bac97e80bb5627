"""Operators of a few lines go through the checks, on inputs, outputs, truth and edge cases that nobody declared."""

import itertools
from dataclasses import replace

import jax
import jax.numpy as jnp
import numba
import numpy as np
import pytest
from hypothesis import find

from reports import Status
from suites import Backend, Gradient, Operator, Truth, bounded, exact, values, vectors, wide
from suites.bench.timed_programs import Programs
from suites.checks.drawn import drawn_arrays
from suites.checks.judging.cell_verdict import judge_kernel
from suites.declare.contradictions import verify
from suites.numerics.precision import precision
from suites.unit.suites.ops_small import OPERATORS, cube, gather

BY_NAME = {operator.name: operator for operator in OPERATORS}
CELLS = [
    pytest.param(operator, backend, dtype, id=f"{operator.name}-{backend.id}-{dtype}")
    for operator in OPERATORS
    for backend in operator.backends()
    for dtype in operator.dtypes
    if operator.unsupported(backend, "cpu", dtype) is None
]


def _cube(**changes):
    return Operator(**{"name": "cube", "reference": lambda x: x**3, "kernels": {"numba": cube}, **changes})


@pytest.mark.parametrize(("operator", "backend", "dtype"), CELLS)
def test_right_kernels_pass_on_samples_and_edge_cases(operator, backend, dtype):
    for inputs in (operator.sample(dtype, 257, 0), *operator.edges(dtype).values()):
        verdict = judge_kernel(operator, backend, inputs)
        assert verdict.status is Status.PASSED, verdict.reason


@pytest.mark.parametrize("operator", OPERATORS, ids=BY_NAME)
def test_nothing_in_them_contradicts_itself(operator):
    verify(operator)


def test_wrong_kernel_fails():
    @numba.njit
    def square(x, out):
        for i in range(x.size):
            out[i] = x[i] * x[i]

    operator = _cube(kernels={"numba": square})
    assert judge_kernel(operator, Backend.NUMBA, operator.sample("float32", 33, 0)).status is Status.WRONG_VALUE


@pytest.mark.parametrize("name", ["gather", "exclusive_or", "total", "sine_cosine"])
def test_they_are_timed_whatever_their_first_input_is(name):
    operator = BY_NAME[name]
    inputs = operator.sample(operator.dtypes[0], 4096, 0)
    before = [array.copy() for array in inputs]
    with precision(operator.dtypes[0]):
        programs = Programs.of(operator.build(Backend.NUMBA, inputs), operator.outputs(*inputs), inputs)
        assert programs.chained is not None
        results = programs.chained(20, inputs)
    verdict = judge_kernel(operator, Backend.NUMBA, inputs)
    assert verdict.status is Status.PASSED
    for result, expected in zip(results, operator.truth(*inputs).outputs, strict=True):
        assert np.allclose(np.asarray(result, np.float64), np.asarray(expected.value, np.float64))
    assert all(np.array_equal(array, old) for array, old in zip(inputs, before, strict=True))


class TestDefaults:
    def test_sample_has_a_vector_for_each_input_of_the_reference(self):
        inputs = BY_NAME["exclusive_or"].sample("int32", 100, 3)
        assert [(array.shape, array.dtype) for array in inputs] == [((100,), np.int32)] * 2
        assert 0 <= min(array.min() for array in inputs) <= max(array.max() for array in inputs) < 100
        assert not np.array_equal(*inputs)
        assert 0 < BY_NAME["exclusive_or"].sample("bool", 100, 3)[0].sum() < 100

    @pytest.mark.parametrize(
        ("reference", "count"),
        [
            (lambda x, y: x + y, 2),
            (lambda x, axis=0: x, 1),
            (lambda x, *, axis=0: x, 1),
            (jnp.sin, 1),
            (jnp.add, 2),
            (jax.jit(lambda x, y, z: x + y + z), 3),
            (jax.nn.softmax, 1),
        ],
    )
    def test_inputs_are_the_parameters_without_a_default(self, reference, count):
        assert len(_cube(reference=reference).sample("float32", 3, 0)) == count

    def test_outputs_are_those_of_the_reference_in_the_mode_of_the_dtype(self):
        specs = [jax.ShapeDtypeStruct((7,), np.int32)]
        counted = _cube(reference=lambda x: (x.sum(), x.astype(float)), dtypes=("int32", "int64"))
        narrow, wide_ = (counted.outputs(jax.ShapeDtypeStruct((7,), dtype)) for dtype in ("int32", "int64"))
        assert [(out.shape, out.dtype.name) for out in narrow] == [((), "int32"), ((7,), "float32")]
        assert [(out.shape, out.dtype.name) for out in wide_] == [((), "int64"), ((7,), "float64")]
        assert counted.outputs(*specs) == narrow
        with jax.enable_x64(True):
            assert counted.outputs(jax.ShapeDtypeStruct((9,), np.int32))[0].dtype == np.int32

    def test_work_is_that_of_all_arrays_and_operations_are_unknown(self):
        operator = BY_NAME["sine_cosine"]
        inputs = operator.sample("float64", 10, 0)
        assert (operator.bytes_read(*inputs), operator.bytes_written(*inputs)) == (80, 160)
        assert operator.flops(*inputs) is None
        assert _cube(flops=lambda x: 0.5 * x.size).flops(*inputs) == 5

    def test_edge_cases_come_with_the_default_sample_alone(self):
        assert set(_cube().edges("float32")) == {
            *("empty", "one", "nan", "infinities", "signed_zeros", "subnormal", "largest")
        }
        assert set(BY_NAME["powers"].edges("int32")) == {"empty", "one"}
        assert BY_NAME["gather"].edges("float32") == {}

    def test_edge_cases_without_a_right_result_are_left_out(self):
        assert "empty" not in BY_NAME["largest"].edges("float32")
        assert "subnormal" not in BY_NAME["quotient"].edges("float32")

    def test_tolerance_takes_the_place_of_a_derived_bound(self):
        inputs = (np.ones(3, np.float32),)
        tight, loose = (_cube(tolerance=tolerance).truth(*inputs).outputs[0] for tolerance in (1e-6, 1e-2))
        assert np.all(loose.margin > 1000 * tight.margin)

    def test_copies_have_defaults_of_their_own(self):
        copy = replace(_cube(), name="squares", reference=lambda x, y: (x * y, x > y))
        assert len(copy.sample("float32", 3, 0)) == 2
        assert [out.dtype.name for out in copy.outputs(*copy.sample("float32", 3, 0))] == ["float32", "bool"]
        assert copy.truth(np.full(1, 2.0), np.full(1, 3.0)).outputs[0].value == 6
        assert "squares" in repr(copy.truth)

    def test_copies_keep_what_was_given(self):
        given = _cube(sample=lambda dtype, size, seed: np.full(size, 7, dtype), flops=lambda *inputs: 3)
        copy = replace(replace(given, version=2), name="other")
        assert copy.sample("float32", 2, 0)[0].tolist() == [7, 7]
        assert copy.flops() == 3
        assert copy.kernels == given.kernels


class TestForms:
    """What the functions of an operator return comes in one form."""

    @pytest.mark.parametrize(
        "found",
        [
            lambda dtype, size: np.ones(size, dtype),
            lambda dtype, size: (np.ones(size, dtype),),
            lambda dtype, size: [np.ones(size, dtype)],
            lambda dtype, size: jnp.ones(size, dtype),
            lambda dtype, size: np.ones(size),
        ],
        ids=["array", "tuple", "list", "jax", "float64"],
    )
    def test_sample(self, found):
        (array,) = _cube(sample=lambda dtype, size, seed: found(dtype, size)).sample("float32", 3, 0)
        assert isinstance(array, np.ndarray)
        assert (array.dtype, array.shape) == (np.float32, (3,))

    def test_integers_of_a_sample_are_as_wide_as_jax_has_them(self):
        operator = BY_NAME["gather"]
        dtypes = {dtype: operator.sample(dtype, 5, 0)[0].dtype.name for dtype in operator.dtypes}
        assert dtypes == {"float32": "int32", "float64": "int64"}

    @pytest.mark.parametrize(
        "reference",
        [lambda x: x, lambda x: (x,), lambda x: [x], lambda x: {"only": x}],
        ids=["array", "tuple", "list", "dict"],
    )
    def test_reference(self, reference):
        (result,) = _cube(reference=reference).reference(np.ones(3, np.float32))
        assert isinstance(result, jax.Array)

    @pytest.mark.parametrize(
        "outputs",
        [lambda x: x, lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype), lambda x: (x,)],
        ids=["like", "struct", "tuple"],
    )
    def test_outputs(self, outputs):
        found = _cube(outputs=outputs).outputs(np.ones(3, np.float32))
        assert found == [jax.ShapeDtypeStruct((3,), np.float32)]

    @pytest.mark.parametrize(
        "form", [lambda one: one, lambda one: (one,), lambda one: [one], lambda one: Truth((one,))],
        ids=["expected", "tuple", "list", "truth"],
    )  # fmt: skip
    @pytest.mark.parametrize("one", [exact, lambda x: bounded(wide(x), x.dtype, ulps=1)], ids=["exact", "bounded"])
    def test_truth(self, form, one):
        found = _cube(truth=lambda x: form(one(x))).truth(np.ones(3, np.float32))
        assert isinstance(found, Truth)
        assert len(found.outputs) == 1

    def test_edges(self):
        operator = _cube(edges=lambda dtype: {"one": np.ones(1), "two": (jnp.ones(2, dtype),)})
        cases = operator.edges("float32")
        assert {name: [array.dtype.name for array in inputs] for name, inputs in cases.items()} == {
            "one": ["float32"],
            "two": ["float32"],
        }

    def test_names_of_backends_become_backends_everywhere(self):
        operator = _cube(gradient=Gradient({0: 1}, backends=["numba"]), tested="numba")
        assert list(operator.kernels) == [Backend.NUMBA]
        assert operator.gradient.backends == operator.tested == (Backend.NUMBA,)

    def test_dtypes_become_names(self):
        names = ("float32", "int64", "bool")
        for given in itertools.product(*((name, np.dtype(name), getattr(np, name, bool)) for name in names)):
            assert _cube(dtypes=list(given)).dtypes == names


def test_a_float_never_becomes_an_index_in_the_benchmark():
    """``x`` is so short, and its values are so large, that one of them as an index would crash the process."""
    operator = Operator(
        name="gather",
        reference=lambda indices, x: x[indices],
        kernels={"numba": gather},
        sample=lambda dtype, size, seed: (np.arange(size) % 3, np.full(3, 1e9, dtype)),
    )
    inputs = operator.sample("float32", 4096, 0)
    programs = Programs.of(operator.build(Backend.NUMBA, inputs), operator.outputs(*inputs), inputs)
    (result,) = programs.chained(20, inputs)
    assert np.array_equal(result, np.full(4096, 1e9, np.float32))


@pytest.mark.parametrize("dtype", ["bool", "uint8", "complex64", "float16"])
def test_drawn_values_and_edge_cases_are_of_any_dtype(dtype):
    assert values(dtype, 3, np.random.default_rng(0)).dtype == dtype
    assert {vector.dtype.name for vector in vectors(dtype).values()} == {dtype}
    special = drawn_arrays.special_values(dtype)
    assert {np.asarray(value).dtype.name for value in special} == {dtype}
    assert find(drawn_arrays.elements(dtype), lambda value: value == special[1]) == special[1]
