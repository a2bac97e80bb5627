"""On inputs that Hypothesis draws, every kernel gives the true result and writes every element; batches likewise."""

import itertools

import jax
import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from suites.inputs.drawn_arrays import SEEDS, samples
from suites.inputs.drawn_batches import batches
from suites.inputs.drawn_sparse import csr
from suites.judging.cell_verdict import check, check_results, missing_custom_call, precision
from suites.plugin import HYPOTHESIS_PROFILE

# One fixture serves all examples on purpose: it keeps the worst accuracy of them.
DRAWN = settings(
    settings.get_profile(HYPOTHESIS_PROFILE),
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


@DRAWN
@given(data=st.data())
def test_drawn_inputs_are_right(kernel_case, evidence, data):
    operator = kernel_case.operator
    inputs = data.draw(samples(operator, [kernel_case.dtype]))
    evidence.require(check(operator, kernel_case.backend, inputs, kernel_case.device))


@DRAWN
@given(data=st.data())
def test_drawn_structure_is_right(sparse_case, evidence, data):
    operator, dtype = sparse_case.operator, sparse_case.dtype
    matrix = data.draw(csr(dtype))
    random = np.random.default_rng(data.draw(SEEDS))
    others = operator.after_csr(dtype, matrix.lengths.size, matrix.columns, random)
    inputs = (matrix.data, matrix.indices, matrix.indptr, *others)
    evidence.require(check(operator, sparse_case.backend, inputs, sparse_case.device))


# Each example is a program of its own.
@settings(DRAWN, max_examples=max(1, DRAWN.max_examples // 5))
@given(data=st.data())
def test_drawn_batch_is_right(drawn_batch_case, evidence, data):
    operator, backend, dtype = drawn_batch_case.operator, drawn_batch_case.backend, drawn_batch_case.dtype
    batch = data.draw(batches(operator, dtype, drawn_batch_case.size))
    elements = itertools.product(*(range(level.extent) for level in batch.levels))
    with precision(dtype), jax.default_device(drawn_batch_case.device):
        call = batch.apply(operator.build(backend, next(iter(batch.elements.values()))))
        program = jax.jit(call).lower(*batch.operands).compile()
        results = [np.asarray(leaf) for leaf in program(*map(jax.device_put, batch.operands))]
    calls = operator.calls(backend)
    evidence.require_witness(missing_custom_call(program.as_text(), backend, drawn_batch_case.platform, calls))
    for index in elements:
        found = [batch.element(leaf, index) for leaf in results]
        evidence.require(check_results(operator, batch.elements[index], found), f"element {index} of {batch.levels}")
