"""Checks each element of a batch under ``jax.vmap``: over any axis, nested, or with operands that are not batched.

A kernel backend runs the whole batch in as many custom calls as one element takes.
"""

from typing import Any

import jax
import numpy as np

from reports import Status
from suites.cells.case import Case
from suites.cells.tables import BATCHES, TRANSFORMED_KERNELS
from suites.checks.judging.evidence import Evidence
from suites.checks.register import check
from suites.numerics.arrays import Inputs


@check("vmap", sees="strides and shared operands of batched calls", cells=BATCHES)
def test_each_element_of_a_batch_is_right(case: Case, evidence: Evidence) -> None:
    elements, operands, axes = _batch(case)
    with case.placed():
        function = jax.vmap(case.build(elements[0]), in_axes=axes)
        if case.variant == "nested":
            operands = [np.stack([operand, operand[::-1]], axis=1) for operand in operands]
            function = jax.vmap(function, in_axes=1, out_axes=1)
        program = jax.jit(function).lower(*operands).compile()
        results = [np.asarray(leaf) for leaf in program(*map(jax.device_put, operands))]
    evidence.require_calls(program, case)
    if case.variant == "nested":
        evidence.require_elements(case.operator, elements, [leaf[::-1, 1] for leaf in results])
        results = [leaf[:, 0] for leaf in results]
    evidence.require_elements(case.operator, elements, results)


def _batch(case: Case) -> tuple[list[Inputs], list[Any], list[int | None]]:
    """Returns the inputs of each element, the stacked operands, and the batched axis of each operand.

    An operand that all elements share is not stacked, and its axis is None.
    """
    samples = case.samples()
    count = len(samples[0])
    batched = {"only_first_input": {0}, "only_last_input": {count - 1}}.get(str(case.variant), set(range(count)))
    axis = -1 if case.variant == "last_axis" else 0
    elements = [tuple(each[i] if i in batched else samples[0][i] for i in range(count)) for each in samples]
    operands = [
        np.stack([each[i] for each in elements], axis=axis) if i in batched else samples[0][i] for i in range(count)
    ]
    return elements, operands, [axis if i in batched else None for i in range(count)]


@check("vmap0", sees="errors on batches without elements", cells=TRANSFORMED_KERNELS)
def test_batch_of_none_gives_results_of_none(case: Case, evidence: Evidence) -> None:
    inputs = case.inputs()
    with case.placed():
        results = jax.vmap(case.build(inputs))(*(np.zeros((0, *array.shape), array.dtype) for array in inputs))
    shapes, expected = ([leaf.shape for leaf in leaves] for leaves in (results, case.operator.outputs(*inputs)))
    evidence.seen()
    if shapes != [(0, *shape) for shape in expected]:
        evidence.fail(Status.WRONG_SHAPE, f"shapes {shapes}, expected a leading 0 before each of {expected}")
