"""Checks that a deterministic kernel gives equal bits in every call on equal inputs."""

import jax

from reports import Status
from suites.cells.case import Case
from suites.cells.tables.calls import REPEATABLE_KERNELS
from suites.checks.judging.bits import fingerprint
from suites.checks.judging.evidence import Evidence
from suites.checks.register import check
from suites.numerics.precision import precision


@check(
    "repeat",
    sees="results that vary from call to call where they must not; the others run once or twice",
    cells=REPEATABLE_KERNELS,
    order=20,
)
def test_eager_call_repeats_its_bits(case: Case, evidence: Evidence) -> None:
    inputs = case.inputs()
    with precision(case.dtype), jax.default_device(case.device):
        call = case.operator.build(case.backend, inputs)
        arguments = [jax.device_put(array) for array in inputs]
        bits = {fingerprint([jax.device_get(leaf) for leaf in call(*arguments)]) for _ in range(5)}
    evidence.seen()
    if len(bits) != 1:
        evidence.fail(Status.NONDETERMINISTIC, f"5 calls on the same inputs gave {len(bits)} different results")
