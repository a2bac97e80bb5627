"""csr_binary_matvec on a CPU: what counts as a spike does not depend on the dtype of the spikes, nor on a table."""

import jax
import numpy as np
import pytest

from suites.backends import BACKENDS
from suites.ops import operators
from suites.ops.csr_binary_matvec.numba_cpu import FEW

SPIKES = {"float32": [0.25, 0, np.nan], "int64": [2**32, 0, -1], "uint8": [255, 0, 1]}


@pytest.mark.parametrize("dtype", SPIKES)
def test_what_is_not_zero_is_a_spike(dtype):
    operator = operators()["csr_binary_matvec"]
    for neurons in (3, 12 * FEW):
        spikes = np.zeros(neurons, dtype)
        spikes[:3] = SPIKES[dtype]
        inputs = (np.arange(1, 7, dtype=np.float32), np.int32([0, 1, 2, 0, 1, 2]), np.int32([0, 3, 6]), spikes)
        with jax.enable_x64(True):
            (result,) = operator.build(BACKENDS["numba"], inputs)(*inputs)
        np.testing.assert_array_equal(result, [1 + 3, 4 + 6])
