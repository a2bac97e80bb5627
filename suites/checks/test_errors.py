"""Inputs that make no sense are refused, with an error that says what is wrong."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from suites.judging.cell_verdict import precision


def test_bad_inputs_are_refused_in_the_operators_own_words(error_case):
    operator, backend, error = error_case.operator, error_case.backend, error_case.error
    inputs = error.inputs()
    failure = error.failures[backend]
    with (
        precision(error_case.dtype),
        jax.default_device(error_case.device),
        pytest.raises(failure.exception, match=failure.message),
    ):
        jax.block_until_ready(operator.build(backend, inputs)(*map(jax.device_put, inputs)))


def _call(case):
    inputs = [jnp.asarray(array) for array in case.inputs()]
    return case.operator.build(case.backend, inputs), inputs


def _counts(got, expected):
    """In Numba nothing tells inputs from outputs but the number of outputs; Warp's parameters are counted by name."""
    return rf"got {got} (inputs and has \d outputs declared|arguments, expected {expected}: )"


def test_missing_input_is_refused_with_both_counts(direct_case):
    call, inputs = _call(direct_case)
    with pytest.raises(TypeError, match=_counts(len(inputs) - 1, len(inputs))):
        call(*inputs[:-1])


def test_extra_input_is_refused_with_both_counts(direct_case):
    call, inputs = _call(direct_case)
    with pytest.raises(TypeError, match=_counts(len(inputs) + 1, len(inputs))):
        call(*inputs, inputs[0])


@pytest.mark.parametrize("half", ["float16", "bfloat16"])
def test_half_precision_is_refused_with_a_cure(fullprecision_case, half):
    call, inputs = _call(fullprecision_case)
    with pytest.raises(TypeError, match=rf"no {half} arrays.*float32"):
        call(*[array.astype(half) if jnp.issubdtype(array.dtype, np.floating) else array for array in inputs])


def test_gradient_without_a_rule_says_how_to_attach_one(ruleless_case):
    call, inputs = _call(ruleless_case)
    index = ruleless_case.operator.float_input(inputs)

    def loss(x):
        return call(*inputs[:index], x, *inputs[index + 1 :])[0].sum()

    with pytest.raises(NotImplementedError, match=r"custom_vjp"):
        jax.grad(loss)(inputs[index])
