"""In Numba's CUDA simulator the kernels whose threads work together give true results, on a machine without a GPU."""

import os
import subprocess
import sys

import pytest

from suites.backends import numba_cuda_blocks as cuda_kernels

pytestmark = pytest.mark.skipif(cuda_kernels.MISSING is not None, reason=str(cuda_kernels.MISSING))

GROUPS = {
    "shared_memory": ["sum", "mean_std", "matvec", "softmax"],
    "rows": ["csr_matvec", "csr_binary_matvec"],
    "rows_and_columns": ["csr_matmat"],
    "pairs": ["nbody"],
    "scans": ["cumsum", "linear_recurrence"],
    "atomics": ["scatter_add", "csr_rmatvec", "histogram"],
    "streams": ["add", "lif_step", "split_sign"],
    "two_dimensions": ["stencil", "matmul"],
    "rows_of_features": ["rms_norm", "rotary", "embedding", "quantise", "depthwise_conv"],
    "warps": ["attention", "top_k"],
}


MUTANTS = (
    "csr_binary_matvec~swapped_bits",
    "csr_binary_matvec~last_element_again",
    "csr_matmat~first_group_alone",
    "missing_shuffle",
)
"""Broken kernels whose faults do not depend on which thread is faster."""


def simulated(*names):
    environment = os.environ | {"NUMBA_ENABLE_CUDASIM": "1", "JAX_PLATFORMS": "cpu"}
    command = [sys.executable, "-m", "suites.unit.suites.cuda_simulation", *names]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)


@pytest.mark.parametrize("group", GROUPS)
def test_simulated_kernels_are_right(group):
    done = simulated(*GROUPS[group])
    assert done.returncode == 0, done.stdout + done.stderr


def test_simulated_mutants_are_wrong():
    done = simulated(*MUTANTS)
    assert {line.partition(" ")[0] for line in done.stdout.splitlines() if "WRONG" in line} == set(MUTANTS), done.stderr
