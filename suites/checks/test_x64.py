"""With JAX's x64 mode on, kernels of 32 bits stay what they are; the cells of 64 bits have it on everywhere."""

import jax

from suites.judging.cell_verdict import check_results


def test_the_other_precision_mode_changes_nothing(kernel_case, evidence):
    operator, inputs = kernel_case.operator, kernel_case.inputs()
    with jax.enable_x64(True), jax.default_device(kernel_case.device):
        call = operator.build(kernel_case.backend, inputs)
        arguments = list(map(jax.device_put, inputs))
        eager, compiled = call(*arguments), jax.jit(call)(*arguments)
    evidence.require(check_results(operator, inputs, eager), "eager")
    evidence.require(check_results(operator, inputs, compiled), "compiled")
