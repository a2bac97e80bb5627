"""Compiled ahead of time, every backend gives the true result, from a program that really calls it."""

import jax

from suites.cells.params import SEED
from suites.judging.cell_verdict import check, check_results, missing_custom_call, precision


def test_compiled_program_calls_the_kernel_and_writes_every_element_right(sample_case, evidence):
    evidence.require(check(sample_case.operator, sample_case.backend, sample_case.inputs(), sample_case.device))


def test_large_inputs_are_right(large_case, evidence):
    evidence.require(check(large_case.operator, large_case.backend, large_case.inputs(), large_case.device))


def test_jit_around_several_calls_keeps_all(kernel_case, evidence):
    """One on the inputs, and one for each input that differs from them in that one alone."""
    operator, inputs = kernel_case.operator, kernel_case.inputs()
    other = operator.sample(kernel_case.dtype, kernel_case.size, SEED + 1)
    variants = [inputs, *((*inputs[:i], other[i], *inputs[i + 1 :]) for i in range(len(inputs)))]
    with precision(kernel_case.dtype), jax.default_device(kernel_case.device):
        call = operator.build(kernel_case.backend, inputs)
        program = jax.jit(lambda variants: [call(*each) for each in variants]).lower(variants).compile()
        results = program(jax.device_put(variants))
    calls = len(variants) * operator.calls(kernel_case.backend)
    evidence.require_witness(missing_custom_call(program.as_text(), kernel_case.backend, kernel_case.platform, calls))
    for number, (each, result) in enumerate(zip(variants, results, strict=True)):
        evidence.require(check_results(operator, each, result), f"call {number}")
