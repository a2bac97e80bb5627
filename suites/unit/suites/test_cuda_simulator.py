"""In Numba's CUDA simulator the kernels whose threads work together give true results, on a machine without a GPU."""

import os
import subprocess
import sys

import pytest

from suites.backends import numba_cuda_blocks as cuda_kernels

pytestmark = pytest.mark.skipif(cuda_kernels.MISSING is not None, reason=str(cuda_kernels.MISSING))

GROUPS = {
    "shared_memory": ["block_sum", "sum", "max", "mean_std", "matvec", "softmax"],
    "rows": ["csr_matvec", "csr_binary_matvec", "csr_matmat", "top1_gather"],
    "pairs": ["nbody", "pairwise_distances"],
    "scans": ["cumsum", "linear_recurrence"],
    "atomics": ["scatter_add", "csr_rmatvec", "histogram"],
    "several_kernels": ["abs_two_pass", "spike_reset"],
    "two_dimensions": ["hadamard", "stencil"],
}


@pytest.mark.parametrize("group", GROUPS)
def test_simulated_kernels_are_right(group):
    environment = os.environ | {"NUMBA_ENABLE_CUDASIM": "1", "JAX_PLATFORMS": "cpu"}
    command = [sys.executable, "-m", "suites.unit.suites.cuda_simulation", *GROUPS[group]]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
