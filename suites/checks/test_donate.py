"""Checks that a donated input, whose memory XLA may give to an output, leaves results right and other inputs alone."""

import warnings
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from reports import Status
from suites.cells.case import Case
from suites.cells.tables.calls import TRANSFORMED_KERNELS
from suites.checks.judging.bits import fingerprint
from suites.checks.judging.cell_verdict import judge_results
from suites.checks.judging.evidence import Evidence
from suites.checks.register import check
from suites.numerics.arrays import Inputs
from suites.numerics.precision import precision


@check(
    "donate",
    sees="reading an input after XLA was allowed to reuse its memory, on versions that do",
    cells=TRANSFORMED_KERNELS,
    order=140,
)
def test_donated_inputs_give_right_results_and_others_stay(case: Case, evidence: Evidence) -> None:
    operator, inputs = case.operator, case.inputs()
    donated = _donated(inputs, operator.outputs(*inputs))
    with precision(case.dtype), jax.default_device(case.device):
        call = operator.build(case.backend, inputs)
        # Copies that XLA owns: it cannot reuse memory that it borrows from NumPy.
        arguments = [jax.numpy.array(array, copy=True) for array in inputs]
        with warnings.catch_warnings():
            # XLA cannot reuse the memory for an output of another shape. That is no fault of the kernel.
            warnings.filterwarnings("ignore", message="Some donated buffers were not usable")
            results = jax.jit(call, donate_argnums=donated)(*arguments)
        kept = [position for position in range(len(inputs)) if position != donated]
        after = [np.asarray(arguments[position]) for position in kept]
    evidence.require(judge_results(operator, inputs, results))
    if fingerprint(after) != fingerprint([inputs[position] for position in kept]):
        evidence.fail(Status.INPUT_MUTATED, "an input that was not donated has other bits after the call than before")


def _donated(inputs: Inputs, outs: Sequence[Any]) -> int:
    """Returns the first input whose memory fits an output; the first of all if none does."""
    outputs = {(tuple(out.shape), np.dtype(out.dtype)) for out in outs}
    fitting = (index for index, array in enumerate(inputs) if (array.shape, array.dtype) in outputs)
    return next(fitting, 0)
