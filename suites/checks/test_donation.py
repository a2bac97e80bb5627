"""With an input donated, whose memory XLA may give to an output, results are right and the other inputs stay."""

import warnings

import jax
import numpy as np

from reports import Status
from suites.judging.cell_verdict import check_results, fingerprint, precision


def _donated(inputs, outs):
    """The first input whose memory an output can have; else the first of all."""
    outputs = {(tuple(out.shape), np.dtype(out.dtype)) for out in outs}
    fitting = (index for index, array in enumerate(inputs) if (array.shape, array.dtype) in outputs)
    return next(fitting, 0)


def test_donated_inputs_give_right_results_and_others_stay(kernel_case, evidence):
    operator, inputs = kernel_case.operator, kernel_case.inputs()
    donated = _donated(inputs, operator.outputs(*inputs))
    with precision(kernel_case.dtype), jax.default_device(kernel_case.device):
        call = operator.build(kernel_case.backend, inputs)
        # Copies that XLA owns: it cannot take memory that NumPy lent it.
        arguments = [jax.numpy.array(array, copy=True) for array in inputs]
        with warnings.catch_warnings():
            # An output of another shape cannot have it, and that is no fault of the kernel.
            warnings.filterwarnings("ignore", message="Some donated buffers were not usable")
            results = jax.jit(call, donate_argnums=donated)(*arguments)
        kept = [position for position in range(len(inputs)) if position != donated]
        after = [np.asarray(arguments[position]) for position in kept]
    evidence.require(check_results(operator, inputs, results))
    if fingerprint(after) != fingerprint([inputs[position] for position in kept]):
        evidence.fail(Status.INPUT_MUTATED, "an input that was not donated has other bits after the call than before")
