"""Building blocks of Numba-CUDA kernels: neighbouring elements move by one instruction, others one by one."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from types import SimpleNamespace

import pytest

from suites.backends import numba_cuda_blocks as cuda_kernels
from suites.backends.numba_cuda import kernel
from suites.ops.cumsum.look_back import look_back_words
from suites.unit.suites import cuda_block_simulation as simulation
from suites.unit.suites.ptx import ptx_of

pytestmark = pytest.mark.skipif(cuda_kernels.MISSING is not None, reason=str(cuda_kernels.MISSING))

INSTRUCTIONS = {
    "float32": ("ld.global.v4.f32", "st.global.v4.f32"),
    "int32": ("ld.global.v4.u32", "st.global.v4.u32"),
    "float64": ("ld.global.v2.f64", "st.global.v2.f64"),
    "float16": ("ld.global.v4.u16", "st.global.v4.u16"),
    "bfloat16": ("ld.global.v4.u16", "st.global.v4.u16"),
    "bool": ("ld.global.v4.u8", "st.global.v4.u8"),
}


@pytest.mark.parametrize("dtype", INSTRUCTIONS)
def test_neighbours_move_by_vector_instructions(dtype):
    arrays = [SimpleNamespace(dtype=dtype, shape=(9,))] * 2
    ptx = ptx_of(kernel(simulation.copy_neighbours), arrays, 1, (9, 0))
    assert {*INSTRUCTIONS[dtype]} <= {*re.findall(r"(?:ld|st)\.global\.v[\w.]+", ptx)}


@pytest.mark.parametrize(("tiles", "sums"), [(1, 1 + 1 + 1), (32, 32 + 1 + 1), (33, 33 + 2 + 1), (1025, 1025 + 33 + 2)])
def test_each_sum_of_a_scan_has_its_words(tiles, sums):
    """A ticket, and a word for each 32 bits of the sums of all tiles, groups of 32 tiles and regions of 1024."""
    assert look_back_words(tiles, "float32") == 1 + sums
    assert look_back_words(tiles, "int64") == 1 + 2 * sums


@pytest.mark.parametrize("part", simulation.PARTS)
def test_simulated_blocks_are_right(part):
    environment = os.environ | {"NUMBA_ENABLE_CUDASIM": "1", "JAX_PLATFORMS": "cpu"}
    command = [sys.executable, "-m", "suites.unit.suites.cuda_block_simulation", part]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
