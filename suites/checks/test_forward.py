"""Called eagerly, every backend gives the true result."""

import jax

from reports import Status
from suites.judging.cell_verdict import check_results, fingerprint, precision


def test_eager_call_is_right_and_leaves_inputs_alone(eager_case, evidence):
    inputs = eager_case.inputs()
    before = fingerprint(inputs)
    with precision(eager_case.dtype), jax.default_device(eager_case.device):
        results = eager_case.operator.build(eager_case.backend, inputs)(*map(jax.device_put, inputs))
    evidence.require(check_results(eager_case.operator, inputs, results))
    if fingerprint(inputs) != before:
        evidence.fail(Status.INPUT_MUTATED, "an input has other bits after the call than before")


def test_eager_call_repeats_its_bits(repeatable_case, evidence):
    inputs = repeatable_case.inputs()
    with precision(repeatable_case.dtype), jax.default_device(repeatable_case.device):
        call = repeatable_case.operator.build(repeatable_case.backend, inputs)
        arguments = [jax.device_put(array) for array in inputs]
        bits = {fingerprint([jax.device_get(leaf) for leaf in call(*arguments)]) for _ in range(5)}
    if len(bits) != 1:
        evidence.fail(Status.NONDETERMINISTIC, f"5 calls on the same inputs gave {len(bits)} different results")
