"""In Numba's CUDA simulator the kernels whose threads work together give true results, on a machine without a GPU."""

import os
import subprocess
import sys

import pytest

from suites.backends import numba_cuda_blocks as cuda_kernels

pytestmark = pytest.mark.skipif(cuda_kernels.MISSING is not None, reason=str(cuda_kernels.MISSING))

GROUPS = {
    "shared_memory": ["block_sum", "sum", "max", "mean_std", "matvec", "softmax"],
    "rows": ["csr_matvec", "csr_binary_matvec", "top1_gather"],
    "rows_and_columns": ["csr_matmat"],
    "pairs": ["nbody", "pairwise_distances"],
    "scans": ["cumsum", "linear_recurrence"],
    "atomics": ["scatter_add", "csr_rmatvec", "csr_binary_rmatvec", "histogram"],
    "several_kernels": ["abs_two_pass", "spike_reset"],
    "streams": ["add", "lif_step", "split_sign"],
    "two_dimensions": ["hadamard", "stencil"],
}


MUTANTS = (
    "csr_matvec~full_groups",
    "csr_matvec~half_of_the_group",
    "csr_binary_matvec~swapped_bits",
    "csr_binary_rmatvec~one_spike_of_a_warp",
    "csr_binary_matvec~last_element_again",
    "csr_matvec~one_more_than_held",
    "csr_binary_matvec~whole_words_of_flags",
    "csr_binary_matvec~weights_of_the_next_rows",
    "csr_matmat~first_group_alone",
    "csr_matmat~repeated_last_term",
    "matvec~dropped_vectors",
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
