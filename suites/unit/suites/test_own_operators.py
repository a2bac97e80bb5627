"""Operators of a few lines go through the checks, on inputs, outputs, truth and edge cases that nobody declared."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from reports import Status
from suites import Operator
from suites.checks.judging.cell_verdict import judge_kernel
from suites.ops import operators
from suites.unit.suites.ops_small import OPERATORS, cube

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
            (lambda x, *, axis=0: x, 1),
            (jnp.add, 2),
            (jax.jit(lambda x, y, z: x + y + z), 3),
        ],
    )
    def test_inputs_are_the_parameters_without_a_default(self, reference, count):
        assert len(_cube(reference=reference).sample("float32", 3, 0)) == count

    def test_edge_cases_come_with_the_default_sample_alone(self):
        assert set(_cube().edges("float32")) == {"empty"}
        assert BY_NAME["gather"].edges("float32") == {}

    def test_tolerance_takes_the_place_of_a_derived_bound(self):
        inputs = (np.ones(3, np.float32),)
        tight, loose = (_cube(tolerance=tolerance).truth(*inputs).outputs[0] for tolerance in (1e-6, 1e-2))
        assert np.all(loose.margin > 1000 * tight.margin)


# The declarations of the built-in operators agree with each other.


GROWTH = {"nbody": 16, "matmul": 8, "matmul_tf32": 8, "attention": 8}
"""How many times as many operations four times the size takes: pairs of bodies, of rows and columns, of positions."""

each_built_in = pytest.mark.parametrize("operator", operators().values(), ids=operators())


READS_LESS = {"embedding"}
"""The operators whose samples have elements that no call reads."""


@each_built_in
def test_samples_depend_on_the_seed_alone(operator):
    first, again, other = (operator.sample("float32", 100, seed) for seed in (1, 1, 2))
    assert all(np.array_equal(a, b) for a, b in zip(first, again, strict=True))
    assert not all(np.array_equal(a, b) for a, b in zip(first, other, strict=True))
    assert [array.shape for array in first] == [array.shape for array in other]  # so that they can be stacked


@each_built_in
def test_declared_work_grows_with_size(operator):
    small, large = (operator.sample("float32", size, 0) for size in (100_000, 400_000))
    moved = [operator.bytes_read(*inputs) + operator.bytes_written(*inputs) for inputs in (large, small)]
    assert 3 < moved[0] / moved[1] < 5
    growth = operator.flops(*large) / operator.flops(*small)
    assert 3 < growth < 5 or growth == pytest.approx(GROWTH.get(operator.name, 4), rel=0.1)
    given = sum(array.nbytes for array in small)
    assert operator.bytes_read(*small) == given or (operator.name in READS_LESS and operator.bytes_read(*small) < given)
    outputs = [np.empty(out.shape, out.dtype) for out in operator.outputs(*small)]
    assert operator.bytes_written(*small) == sum(array.nbytes for array in outputs)
