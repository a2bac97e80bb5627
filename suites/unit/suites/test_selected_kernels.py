"""Kernels that an operator runs for some shapes only compile too, and fit the block that they are launched with."""

import math
import re
import shutil
import subprocess

import pytest

from suites.backends import numba_cuda_blocks as cuda_kernels
from suites.backends.backend import Backend
from suites.ops import operators
from suites.unit.suites.ptx import SIZE, ptx_of

pytestmark = pytest.mark.skipif(cuda_kernels.MISSING is not None, reason=str(cuda_kernels.MISSING))

REGISTERS = 65536
"""Registers of a multiprocessor, from compute capability 5.0 on."""

CASES = (("csr_matmat", "odd_columns"), ("csr_matmat", "one_column"), ("csr_binary_matvec", "one_long_row"))
"""Operators and edge cases, each with another kernel than samples have."""


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("name", "edge"), CASES)
def test_a_selected_kernel_compiles_and_fits_its_block(name, edge, dtype, tmp_path):
    operator = operators()[name]
    kernel, inputs = operator.kernels[Backend.NUMBA_CUDA], operator.edges(dtype)[edge]
    outs = operator.outputs(*inputs)
    sample = operator.sample(dtype, SIZE, 0)
    assert kernel.kernel_of(inputs, outs) is not kernel.kernel_of(sample, operator.outputs(*sample))
    ptx = ptx_of(kernel.kernel_of(inputs, outs), (*inputs, *outs), len(inputs), (9, 0))
    assert ".local" not in ptx  # nothing is kept in memory that belongs in registers
    assert dtype == "float64" or ".f64" not in ptx
    if shutil.which("ptxas") is None:
        pytest.skip("ptxas, which counts registers, is not installed")
    # ptxas may be older than the compiler. The kernels use nothing that came after this version.
    (tmp_path / "kernel.ptx").write_text(re.sub(r"\.version [\d.]+", ".version 8.0", ptx))
    command = ["ptxas", "--verbose", "--gpu-name=sm_90", "-o", "kernel.cubin", "kernel.ptx"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=True)
    words = done.stderr.split()
    used = int(words[words.index("registers,") - 1])
    assert used * math.prod(kernel.launch(inputs, outs)["block"]) <= REGISTERS
