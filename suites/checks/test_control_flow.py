"""Inside ``jax.lax.scan`` and ``jax.lax.cond``, every kernel is as right as alone, and compiled once."""

import jax
import jax.numpy as jnp
import numpy as np

from suites.cells.params import SEED
from suites.judging.cell_verdict import check_results, missing_custom_call, precision

STEPS = 3


def test_each_step_of_a_scan_is_right(kernel_case, evidence):
    operator = kernel_case.operator
    steps = [operator.sample(kernel_case.dtype, kernel_case.size, SEED + seed) for seed in range(STEPS)]
    with precision(kernel_case.dtype), jax.default_device(kernel_case.device):
        call = operator.build(kernel_case.backend, steps[0])

        def scanned(*stacked):
            return jax.lax.scan(lambda count, inputs: (count + 1, call(*inputs)), 0, stacked)

        stacked = [np.stack(column) for column in zip(*steps, strict=True)]
        program = jax.jit(scanned).lower(*stacked).compile()
        count, results = program(*map(jax.device_put, stacked))
        assert int(count) == STEPS
    calls = operator.calls(kernel_case.backend)
    evidence.require_witness(missing_custom_call(program.as_text(), kernel_case.backend, kernel_case.platform, calls))
    for step, inputs in enumerate(steps):
        evidence.require(check_results(operator, inputs, [leaf[step] for leaf in results]), f"step {step}")


def test_branch_that_is_taken_is_right(kernel_case, evidence):
    operator, inputs = kernel_case.operator, kernel_case.inputs()
    outs = operator.outputs(*inputs)
    with precision(kernel_case.dtype), jax.default_device(kernel_case.device):
        call = operator.build(kernel_case.backend, inputs)

        def nothing(*arguments):
            return [jnp.zeros(out.shape, out.dtype) for out in outs]

        def branches(wanted, *arguments):
            return jax.lax.cond(wanted, lambda *taken: list(call(*taken)), nothing, *arguments)

        program = jax.jit(branches).lower(True, *inputs).compile()
        arguments = list(map(jax.device_put, inputs))
        taken, left = program(jnp.asarray(True), *arguments), program(jnp.asarray(False), *arguments)
    calls = operator.calls(kernel_case.backend)
    evidence.require_witness(missing_custom_call(program.as_text(), kernel_case.backend, kernel_case.platform, calls))
    evidence.require(check_results(operator, inputs, taken))
    assert not any(np.any(leaf) for leaf in left)
