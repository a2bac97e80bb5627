"""Exported, serialised and read back, every kernel gives the true result in this process."""

import jax
from jax import export

import bridge
from suites.judging.cell_verdict import check_results, precision


def test_exported_program_is_right(kernel_case, evidence):
    operator, inputs = kernel_case.operator, kernel_case.inputs()
    with precision(kernel_case.dtype), jax.default_device(kernel_case.device):
        call = jax.jit(operator.build(kernel_case.backend, inputs))
        exported = export.export(call, platforms=[kernel_case.platform], disabled_checks=bridge.export_checks())
        program = export.deserialize(exported(*inputs).serialize())
        results = program.call(*map(jax.device_put, inputs))
    evidence.require(check_results(operator, inputs, results))
