"""Called eagerly, every backend gives the true result."""

import jax

from reports import Status
from suites.check import check_results, fingerprint, precision


def test_eager_call_is_right_and_leaves_inputs_alone(sample_case):
    inputs = sample_case.inputs()
    before = fingerprint(inputs)
    with precision(sample_case.dtype), jax.default_device(sample_case.device):
        results = sample_case.operator.build(sample_case.backend, inputs)(*map(jax.device_put, inputs))
    verdict = check_results(sample_case.operator, inputs, results)
    assert verdict.status is Status.PASSED, verdict.reason
    assert fingerprint(inputs) == before


def test_eager_call_repeats_its_bits(repeatable_case):
    inputs = repeatable_case.inputs()
    with precision(repeatable_case.dtype), jax.default_device(repeatable_case.device):
        call = repeatable_case.operator.build(repeatable_case.backend, inputs)
        arguments = [jax.device_put(array) for array in inputs]
        bits = {fingerprint([jax.device_get(leaf) for leaf in call(*arguments)]) for _ in range(5)}
    assert len(bits) == 1
