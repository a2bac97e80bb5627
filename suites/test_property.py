"""On inputs that hypothesis draws, every kernel gives the true result and writes every element."""

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from suites.check import check

# A program is compiled once per shape, so there are few of them.
SIZES = (2, 31, 64)


@settings(suppress_health_check=list(HealthCheck))
@given(size=st.sampled_from(SIZES), seed=st.integers(0, 2**32 - 1))
def test_drawn_inputs_are_right(kernel_case, evidence, size, seed):
    inputs = kernel_case.operator.sample(kernel_case.dtype, size, seed)
    evidence.require(check(kernel_case.operator, kernel_case.backend, inputs, kernel_case.device))
