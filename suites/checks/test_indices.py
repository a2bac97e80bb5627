"""Checks every index of a Numba kernel against the shape of its array, in a copy that is compiled with checks.

It also sees what guard pages cannot: an index that leaves its row but not the array, and one that leaves an array which
the kernel allocates. A negative index counts from the end, as Numba defines it.
"""

from typing import Any

import jax
import numba
import pytest

from reports import Status
from suites.cells.case import SEED, Case, edges_of, sample
from suites.cells.tables.calls import CHECKABLE_KERNELS
from suites.checks.judging.evidence import Evidence
from suites.checks.register import check
from suites.numerics.precision import precision


@check(
    "indices",
    sees="indices out of bounds, also within an array and in memory that the kernel allocates (Numba)",
    cells=CHECKABLE_KERNELS,
    order=36,
)
def test_every_index_is_inside_its_array(case: Case, evidence: Evidence) -> None:
    if numba.config.BOUNDSCHECK == 0:
        pytest.skip("NUMBA_BOUNDSCHECK=0 turns off Numba's checks of indices")
    operator = case.operator
    kernel = operator.kernels[case.backend].with_bounds_checks()
    assert kernel is not None  # the table holds no other kernels
    samples = {f"size {size}": sample(operator, case.dtype, size, SEED) for size in operator.sizes.check}
    with precision(case.dtype), jax.default_device(case.device):
        for name, inputs in (samples | dict(edges_of(operator, case.dtype))).items():
            call = kernel.build(inputs, operator.outputs(*inputs))
            try:
                program = jax.jit(call).lower(*inputs).compile()
            except Exception as error:
                pytest.skip(f"Numba does not compile the kernel with checks of indices: {error}")
            _require_no_index_error(evidence, name, program, inputs)
            evidence.seen()


def _require_no_index_error(evidence: Evidence, name: str, program: Any, inputs: Any) -> None:
    try:
        jax.block_until_ready(program(*map(jax.device_put, inputs)))
    except jax.errors.JaxRuntimeError as error:
        _, found, message = str(error).partition("IndexError: ")
        if not found:
            raise
        evidence.fail(Status.OUT_OF_BOUNDS, f"{name}: {message.strip()}")
