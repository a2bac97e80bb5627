"""Strategies draw what they promise: kernels are right on all of it, and what must be refused is."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.sparse
import warp as wp
from hypothesis import HealthCheck, Phase, find, given, settings
from hypothesis import strategies as st

from bridge import LaunchError, jax_kernel
from bridge.languages.launch_shape import Limits, check_limits, launch_shape
from reports import Status
from suites.backends.backend import Backend
from suites.checks.drawn import drawn_arrays, drawn_batches, drawn_sparse
from suites.checks.judging.cell_verdict import judge_kernel, judge_results
from suites.numerics.arrays import specs
from suites.numerics.precision import precision
from suites.ops import operators
from suites.unit.suites import drawn_launches

# Some examples compile a program, which takes as long as a thousand that do not.
compiling = settings(deadline=None, max_examples=30, suppress_health_check=[HealthCheck.too_slow], database=None)
pure = settings(deadline=None, database=None)

FIND = settings(database=None, max_examples=2000, phases=[Phase.generate])


@pure
@given(st.data(), st.sampled_from(["float32", "float64", "int32", "uint8"]))
def test_vectors_have_a_size_and_a_dtype_of_those_asked_for(data, dtype):
    vector = data.draw(drawn_arrays.vectors(dtype))
    assert vector.dtype == dtype
    assert vector.size in drawn_arrays.SIZES


@pytest.mark.parametrize(
    "wanted",
    [np.isnan, np.isposinf, np.isneginf, lambda x: (x == 0) & np.signbit(x), lambda x: (x != 0) & (np.abs(x) < 1e-38)],
    ids=["nan", "inf", "minus_inf", "minus_zero", "subnormal"],
)
def test_vectors_have_every_kind_of_special_value(wanted):
    find(drawn_arrays.vectors("float32"), lambda vector: wanted(vector).any(), settings=FIND)


@pytest.mark.parametrize("name", ["add", "exp_trace", "leaky_relu", "lif_step", "split_sign"])
@compiling
@given(data=st.data())
def test_elementwise_operators_are_right_on_any_values(name, data):
    operator = operators()[name]
    inputs = data.draw(drawn_arrays.samples(operator, dtypes=("float32",), sizes=(5, 33)))
    verdict = judge_kernel(operator, Backend.NUMBA, inputs)
    assert verdict.status is Status.PASSED, verdict.reason


@pure
@given(data=st.data())
def test_infinite_and_subnormal_numbers_never_come_together(data):
    drawn = np.concatenate(data.draw(drawn_arrays.samples(operators()["scale_add"], dtypes=("float32",), sizes=(33,))))
    subnormal = (drawn != 0) & (np.abs(drawn) < np.finfo(np.float32).tiny)
    assert not (np.isinf(drawn).any() and subnormal.any())


@pure
@given(data=st.data())
def test_samples_change_long_inputs_alone_and_keep_parameters(data):
    *_, parameter = data.draw(drawn_arrays.samples(operators()["exp_trace"], dtypes=("float64",)))
    assert parameter.tolist() == [1 / 20]


def test_samples_of_every_operator_get_special_values():
    strategy = drawn_arrays.samples(operators()["sum"], dtypes=("float32",), sizes=(33,))
    find(strategy, lambda inputs: np.isnan(inputs[0]).any(), settings=FIND)


@pure
@given(data=st.data())
def test_samples_stay_within_domains(data):
    operator = operators()["csr_matvec"]
    sampled = data.draw(drawn_arrays.samples(operator, dtypes=("float32",), sizes=(33,)))
    for index, array in enumerate(sampled):
        assert operator.domain_of(index).outside(array, sampled) is None


@pure
@given(drawn_sparse.csr("float32"))
def test_csr_is_a_matrix_that_scipy_reads_alike(matrix):
    assert matrix.data.size == matrix.indices.size == matrix.indptr[-1]
    assert (matrix.lengths >= 0).all()
    assert matrix.lengths.size in drawn_sparse.ROWS
    shape = (matrix.lengths.size, matrix.columns)
    ours = scipy.sparse.csr_matrix((matrix.data, matrix.indices, matrix.indptr), shape).toarray()
    np.testing.assert_allclose(matrix.dense(), ours, rtol=1e-5, atol=1e-5)  # added up in another order


STRUCTURES = {
    "empty_rows": lambda m: (m.lengths == 0).sum() > m.lengths.size / 2 and m.data.size,
    "one_long_row": lambda m: m.lengths.size > 2 and m.lengths.max() > 0.8 * m.data.size and (m.lengths > 0).all(),
    "duplicates": lambda m: any(np.unique(row).size < row.size for row in _rows(m)),
    "unsorted": lambda m: any((np.diff(row) < 0).any() for row in _rows(m)),
    "uneven": lambda m: np.unique(m.lengths).size > 3,
    "nothing": lambda m: not m.data.size,
}


def _rows(matrix):
    return np.split(matrix.indices, matrix.indptr[1:-1])


@pytest.mark.parametrize("structure", STRUCTURES)
def test_csr_has_every_structure(structure):
    find(drawn_sparse.csr("float32"), STRUCTURES[structure], settings=FIND)


@pytest.mark.parametrize("backend", [Backend.NUMBA, Backend.WARP], ids=str)
@compiling
@given(data=st.data())
def test_sparse_product_is_right_on_any_structure(backend, data):
    matrix = data.draw(drawn_sparse.csr("float32", rows=(7,), nonzeros=(0, 33)))
    x = np.random.default_rng(data.draw(drawn_arrays.SEEDS)).standard_normal(matrix.columns).astype(np.float32)
    inputs = (matrix.data, matrix.indices, matrix.indptr, x)
    verdict = judge_kernel(operators()["csr_matvec"], backend, inputs)
    assert verdict.status is Status.PASSED, verdict.reason


@pytest.mark.parametrize("name", ["scale_add", "csr_matvec"])
@compiling
@given(data=st.data())
def test_elements_of_a_batch_are_what_jax_takes_them_for(name, data):
    operator = operators()[name]
    batch = data.draw(drawn_batches.batches(operator, "float32", 5))
    assert all(any(axis is not None for axis in level.in_axes) for level in batch.levels)
    result = np.asarray(batch.apply(_joined)(*batch.operands))
    assert result.size == len(batch.elements) * sum(array.size for array in next(iter(batch.elements.values())))
    for index, inputs in batch.elements.items():
        np.testing.assert_array_equal(batch.element(result, index), _joined(*inputs))


def _joined(*inputs):
    return jnp.concatenate([jnp.asarray(each).reshape(-1).astype(jnp.float32) for each in inputs])


@pytest.mark.parametrize(
    "wanted",
    [
        lambda batch: len(batch.levels) == 2,
        lambda batch: None in batch.levels[0].in_axes,
        lambda batch: any(axis is not None and axis < 0 for axis in batch.levels[0].in_axes),
        lambda batch: any(axis is not None and axis > 0 for axis in batch.levels[0].in_axes),
        lambda batch: batch.levels[0].extent == 1,
        lambda batch: batch.levels[0].out_axes not in (0, -1),
    ],
    ids=["nested", "unbatched", "from_the_end", "not_first", "extent_of_one", "out_axis"],
)
def test_batches_have_axes_of_every_kind(wanted):
    find(drawn_batches.batches(operators()["matvec"], "float32", 5), wanted, settings=FIND)


@pytest.mark.parametrize("backend", [Backend.NUMBA, Backend.WARP], ids=str)
@compiling
@given(data=st.data())
def test_every_element_of_any_batch_is_right(backend, data):
    operator = operators()["matvec"]
    batch = data.draw(drawn_batches.batches(operator, "float32", 12))
    first = next(iter(batch.elements.values()))
    with precision("float32"):
        results = jax.tree.leaves(batch.apply(operator.build(backend, specs(first)))(*batch.operands))
    for index, inputs in batch.elements.items():
        verdict = judge_results(operator, inputs, [batch.element(np.asarray(leaf), index) for leaf in results])
        assert verdict.status is Status.PASSED, f"element {index}: {verdict.reason}"


@pure
@given(st.data(), st.sampled_from((0, *drawn_arrays.SIZES)))
def test_launches_are_accepted_and_cover_their_size(data, size):
    shape = launch_shape("k", **data.draw(drawn_launches.launches(size)))
    check_limits("k", shape, Limits())
    assert shape.grid[0] * shape.block[0] >= size
    assert not shape.is_empty


@pure
@given(drawn_launches.senseless_launches())
def test_senseless_launches_are_refused(arguments):
    with pytest.raises(LaunchError, match=r"^k: "):
        launch_shape("k", **arguments)


@pytest.mark.parametrize("limits", [Limits(), Limits(block_threads=256, grid=(1000, 10, 10), shared_bytes=4096)])
@pure
@given(data=st.data())
def test_oversized_launches_are_refused_for_their_device_alone(limits, data):
    shape = launch_shape("k", **data.draw(drawn_launches.oversized_launches(limits)))
    with pytest.raises(LaunchError, match=r"^k: "):
        check_limits("k", shape, limits)
    most = 2**32
    check_limits("k", shape, Limits(most, (most,) * 3, (most,) * 3, most))


@functools.cache
def _negation():
    @wp.kernel
    def negate(x: wp.array(dtype=float), out: wp.array(dtype=float)):
        i = wp.tid()
        out[i] = -x[i]

    return negate


@compiling
@given(data=st.data(), size=st.sampled_from((0, *drawn_arrays.SIZES)))
def test_warp_launches_each_element_whatever_the_form_of_its_dimensions(data, size):
    dims = data.draw(drawn_launches.warp_launch_dims(size))
    (out,) = jax_kernel(_negation(), launch_dims=dims, output_dims=size)(jnp.arange(1.0, size + 1))
    assert out.tolist() == [-float(i) for i in range(1, size + 1)]


@pure
@given(drawn_launches.senseless_warp_launch_dims())
def test_senseless_launch_dims_of_warp_are_refused(dims):
    with pytest.raises(LaunchError, match="negate: launch_dims is "):
        jax_kernel(_negation(), launch_dims=dims)


@pytest.mark.parametrize(
    "wanted",
    [
        lambda launch: isinstance(launch.get("grid"), list),
        lambda launch: isinstance(launch.get("block"), np.int64),
        lambda launch: launch.get("shared_mem") == Limits().shared_bytes,
        lambda launch: launch.get("threads_per_block") == 1024,
    ],
    ids=["list", "numpy_integer", "all_shared_memory", "large_blocks"],
)
def test_launches_come_in_every_form(wanted):
    find(drawn_launches.launches(33), wanted, settings=FIND)
