"""The derivative of every backend that has one is that of the reference, eagerly, compiled, and with ``jax.vmap``."""

import jax
import jax.numpy as jnp
import numpy as np
from jax.test_util import check_grads

from reports import Status
from suites.cells.params import SEED
from suites.judging.cell_verdict import check_results, fingerprint, missing_custom_call, precision
from suites.judging.gradients import random_cotangents, true_cotangents
from suites.truth.verdict import judge

EXTENT = 3


def _verdict(operator, inputs, cotangents, found):
    return judge([np.asarray(each) for each in found], true_cotangents(operator, inputs, cotangents))


def _with_floats(call, operator, inputs):
    """The call as a function of the inputs that have a derivative, and these."""
    indices = list(operator.gradient.terms)

    def function(*floats):
        arguments = list(inputs)
        for index, each in zip(indices, floats, strict=True):
            arguments[index] = each
        return call(*map(jnp.asarray, arguments))

    return function, [inputs[index] for index in indices]


def _pullback(call, operator):
    """From inputs and cotangents of outputs to the outputs, and the cotangents of the inputs that have a derivative."""

    def pullback(inputs, cotangents):
        function, floats = _with_floats(call, operator, inputs)
        outs, vjp = jax.vjp(function, *floats)
        return outs, vjp(cotangents)

    return pullback


def test_eager_gradient_is_right_and_integers_have_none(adjoint_case, evidence):
    operator, inputs = adjoint_case.operator, adjoint_case.inputs()
    cotangents = random_cotangents(operator, inputs, SEED)
    before = fingerprint(inputs)
    with precision(adjoint_case.dtype), jax.default_device(adjoint_case.device):
        call = operator.build(adjoint_case.backend, inputs)
        _, vjp = jax.vjp(call, *map(jax.device_put, inputs))
        found = vjp([jnp.asarray(each) for each in cotangents])
    evidence.require(_verdict(operator, inputs, cotangents, [found[index] for index in operator.gradient.terms]))
    if fingerprint(inputs) != before:
        evidence.fail(Status.INPUT_MUTATED, "an input has other bits after its derivative was taken than before")
    for index in set(range(len(inputs))) - set(operator.gradient.terms):
        if found[index].dtype != jax.dtypes.float0 or found[index].shape != inputs[index].shape:
            reason = f"input {index} has a cotangent of {found[index].dtype}{found[index].shape}, expected float0"
            evidence.fail(Status.WRONG_DTYPE, f"{reason}{inputs[index].shape}")


def test_compiled_gradient_is_right_and_made_by_the_adjoint_kernel(gradient_case, evidence):
    operator, backend, inputs = gradient_case.operator, gradient_case.backend, gradient_case.inputs()
    cotangents = random_cotangents(operator, inputs, SEED)
    with precision(gradient_case.dtype), jax.default_device(gradient_case.device):
        function = jax.jit(_pullback(operator.build(backend, inputs), operator))
        program = function.lower(inputs, cotangents).compile()
        outs, found = program(jax.device_put(inputs), jax.device_put(cotangents))
    calls = 2 * operator.calls(backend)  # each kernel and its adjoint
    evidence.require_witness(missing_custom_call(program.as_text(), backend, gradient_case.platform, calls))
    evidence.require(check_results(operator, inputs, outs), "value")
    evidence.require(_verdict(operator, inputs, cotangents, found), "derivative")


def _batch(case):
    """Inputs and cotangents of each element of a batch, and those of all elements stacked."""
    operator = case.operator
    elements = [operator.sample(case.dtype, case.size, SEED + seed) for seed in range(EXTENT)]
    cotangents = [random_cotangents(operator, inputs, seed) for seed, inputs in enumerate(elements)]
    stacked = [[np.stack(column) for column in zip(*each, strict=True)] for each in (elements, cotangents)]
    return list(zip(elements, cotangents, strict=True)), stacked


def _require_each(evidence, operator, elements, found):
    for index, (inputs, cotangents) in enumerate(elements):
        evidence.require(_verdict(operator, inputs, cotangents, [leaf[index] for leaf in found]), f"element {index}")


def test_batch_of_gradients_is_right(gradient_batch_case, evidence):
    operator = gradient_batch_case.operator
    elements, (inputs, cotangents) = _batch(gradient_batch_case)
    with precision(gradient_batch_case.dtype), jax.default_device(gradient_batch_case.device):
        call = operator.build(gradient_batch_case.backend, elements[0][0])
        _, found = jax.jit(jax.vmap(_pullback(call, operator)))(inputs, cotangents)
    _require_each(evidence, operator, elements, found)


def test_gradient_of_a_batch_is_right(gradient_batch_case, evidence):
    operator = gradient_batch_case.operator
    elements, (inputs, cotangents) = _batch(gradient_batch_case)
    with precision(gradient_batch_case.dtype), jax.default_device(gradient_batch_case.device):
        call = operator.build(gradient_batch_case.backend, elements[0][0])
        _, found = jax.jit(_pullback(jax.vmap(call), operator))(inputs, cotangents)
    _require_each(evidence, operator, elements, found)


def test_gradient_agrees_with_differences(small_gradient_case, evidence):
    operator, inputs = small_gradient_case.operator, small_gradient_case.inputs()
    with precision("float64"), jax.default_device(small_gradient_case.device):
        call = operator.build(small_gradient_case.backend, inputs)
        function, floats = _with_floats(call, operator, list(map(jax.device_put, inputs)))
        try:
            check_grads(jax.jit(function), tuple(floats), order=1, modes=("rev",))
        except AssertionError as difference:
            evidence.fail(Status.WRONG_VALUE, str(difference))
