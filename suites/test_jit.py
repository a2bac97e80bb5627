"""Compiled ahead of time, every backend gives the true result, from a program that really calls it."""

import jax

from suites.check import check, check_results, missing_custom_call, precision


def test_compiled_program_calls_the_kernel_and_writes_every_element_right(sample_case, evidence):
    evidence.require(check(sample_case.operator, sample_case.backend, sample_case.inputs(), sample_case.device))


def test_large_inputs_are_right(large_case, evidence):
    evidence.require(check(large_case.operator, large_case.backend, large_case.inputs(), large_case.device))


def test_jit_around_two_calls_keeps_both(kernel_case, evidence):
    inputs = kernel_case.inputs()
    with precision(kernel_case.dtype), jax.default_device(kernel_case.device):
        call = kernel_case.operator.build(kernel_case.backend, inputs)
        index = kernel_case.operator.feedback

        def twice(*arguments):
            changed = list(arguments)
            changed[index] = arguments[index] + 1
            return call(*arguments), call(*changed)

        program = jax.jit(twice).lower(*inputs).compile()
        first, second = program(*map(jax.device_put, inputs))
    calls = kernel_case.operator.calls(kernel_case.backend)
    evidence.require_witness(
        missing_custom_call(program.as_text(), kernel_case.backend, kernel_case.platform, 2 * calls)
    )
    evidence.require(check_results(kernel_case.operator, inputs, first), "first call")
    changed = [array + array.dtype.type(position == index) for position, array in enumerate(inputs)]
    evidence.require(check_results(kernel_case.operator, changed, second), "second call")
