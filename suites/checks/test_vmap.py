"""Checks each element of a batch under ``jax.vmap``: over any axis, nested, or with operands that are not batched.

A kernel backend runs the whole batch in as many custom calls as one element takes.
"""

from typing import Any

import jax
import numpy as np

from suites.cells.case import SEED, Case
from suites.cells.tables.batches import BATCHES
from suites.checks.judging.cell_verdict import judge_results
from suites.checks.judging.evidence import Evidence
from suites.checks.register import check
from suites.numerics.arrays import Inputs
from suites.numerics.precision import precision

EXTENT = 3


@check("vmap", sees="strides and shared operands of batched calls", cells=BATCHES, order=100)
def test_each_element_of_a_batch_is_right(case: Case, evidence: Evidence) -> None:
    elements, operands, axes = _batch(case)
    operator, backend = case.operator, case.backend
    with precision(case.dtype), jax.default_device(case.device):
        function = jax.vmap(operator.build(backend, elements[0]), in_axes=axes)
        if case.variant == "nested":
            operands = [np.stack([operand, operand[::-1]], axis=1) for operand in operands]
            function = jax.vmap(function, in_axes=1, out_axes=1)
        program = jax.jit(function).lower(*operands).compile()
        results = [np.asarray(leaf) for leaf in program(*map(jax.device_put, operands))]
    evidence.require_calls(program, case)
    columns = [[leaf] for leaf in results]
    if case.variant == "nested":
        columns = [[leaf[:, 0], leaf[::-1, 1]] for leaf in results]
    for repeat in range(len(columns[0])):
        for index, inputs in enumerate(elements):
            found = [column[repeat][index] for column in columns]
            evidence.require(judge_results(operator, inputs, found), f"element {index}")


def _batch(case: Case) -> tuple[list[Inputs], list[Any], list[int | None]]:
    """Returns the inputs of each element, the stacked operands, and the batched axis of each operand.

    An operand that all elements share is not stacked, and its axis is None.
    """
    elements = [case.operator.sample(case.dtype, case.size, SEED + seed) for seed in range(EXTENT)]
    count = len(elements[0])
    batched = set(range(count))
    if case.variant == "only_first_input":
        batched = {0}
    elif case.variant == "only_last_input":
        batched = {count - 1}
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
