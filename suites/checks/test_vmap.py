"""Under ``jax.vmap`` over any axis, nested, or with operands that are not batched, each element is as right as alone.

A kernel backend runs the whole batch in as many custom calls as one element takes.
"""

import jax
import numpy as np
import pytest

from reports import Status
from suites.cells.params import SEED
from suites.judging.cell_verdict import check_results, missing_custom_call, precision

EXTENT = 3


def _batch(case):
    """The inputs of each element, their operands stacked (None where all share one), and the axis of each operand."""
    operator, dtype, size = case.operator, case.dtype, case.size
    elements = [operator.sample(dtype, size, SEED + seed) for seed in range(EXTENT)]
    count = len(elements[0])
    batched = {
        "only_first_input": {0},
        "only_last_input": {count - 1},
    }.get(case.variant, set(range(count)))
    axis = -1 if case.variant == "last_axis" else 0
    elements = [
        tuple(
            own if index in batched else shared
            for index, (own, shared) in enumerate(zip(each, elements[0], strict=True))
        )
        for each in elements
    ]
    operands = [
        np.stack([each[index] for each in elements], axis=axis) if index in batched else elements[0][index]
        for index in range(count)
    ]
    return elements, operands, [axis if index in batched else None for index in range(count)]


@pytest.fixture
def compiled(batch_case):
    """The program of the batch, its results with the batch in front, and the inputs of each element."""
    elements, operands, axes = _batch(batch_case)
    operator, backend = batch_case.operator, batch_case.backend
    with precision(batch_case.dtype), jax.default_device(batch_case.device):
        function = jax.vmap(operator.build(backend, elements[0]), in_axes=axes)
        if batch_case.variant == "nested":
            operands = [np.stack([operand, operand[::-1]], axis=1) for operand in operands]
            function = jax.vmap(function, in_axes=1, out_axes=1)
        program = jax.jit(function).lower(*operands).compile()
        results = [np.asarray(leaf) for leaf in program(*map(jax.device_put, operands))]
    return program, results, elements


def test_each_element_of_a_batch_is_right(batch_case, compiled, evidence):
    program, results, elements = compiled
    calls = batch_case.operator.calls(batch_case.backend)
    evidence.require_witness(missing_custom_call(program.as_text(), batch_case.backend, batch_case.platform, calls))
    columns = [[leaf] for leaf in results]
    if batch_case.variant == "nested":
        columns = [[leaf[:, 0], leaf[::-1, 1]] for leaf in results]
    for repeat in range(len(columns[0])):
        for index, inputs in enumerate(elements):
            found = [column[repeat][index] for column in columns]
            evidence.require(check_results(batch_case.operator, inputs, found), f"element {index}")


def test_batch_of_none_gives_results_of_none(kernel_case, evidence):
    inputs = kernel_case.inputs()
    with precision(kernel_case.dtype), jax.default_device(kernel_case.device):
        call = kernel_case.operator.build(kernel_case.backend, inputs)
        empty = [np.zeros((0, *array.shape), array.dtype) for array in inputs]
        results = jax.vmap(call)(*empty)
    shapes, expected = ([leaf.shape for leaf in leaves] for leaves in (results, kernel_case.operator.outputs(*inputs)))
    if shapes != [(0, *shape) for shape in expected]:
        evidence.fail(Status.WRONG_SHAPE, f"shapes {shapes}, expected a leading 0 before each of {expected}")
