"""Building blocks of Numba-CUDA kernels: neighbouring elements move by one instruction, and scans have their words."""

import re
from types import SimpleNamespace

import numpy as np
import pytest

from suites.backends.numba_cuda import NEIGHBOURS, aligned, first_neighbour, kernel, neighbours, store_neighbours
from suites.kernels.numba_cuda import blocks as cuda_kernels
from suites.ops.cumsum.look_back import look_back_words
from suites.unit.suites.ptx import ptx_of

pytestmark = pytest.mark.skipif(cuda_kernels.MISSING is not None, reason=str(cuda_kernels.MISSING))


@kernel
def copy_neighbours(x, out):
    i = first_neighbour()
    if i + np.uint64(NEIGHBOURS) <= out.size and aligned(x) and aligned(out):
        store_neighbours(out, i, neighbours(x, i))


@pytest.mark.parametrize(
    ("dtype", "instructions"),
    [
        ("float32", {"ld.global.v4.f32", "st.global.v4.f32"}),
        ("int32", {"ld.global.v4.u32", "st.global.v4.u32"}),
        ("float64", {"ld.global.v2.f64", "st.global.v2.f64"}),
        ("bfloat16", {"ld.global.v4.u16", "st.global.v4.u16"}),
        ("bool", {"ld.global.v4.u8", "st.global.v4.u8"}),
    ],
)
def test_neighbours_move_by_vector_instructions(dtype, instructions):
    arrays = [SimpleNamespace(dtype=dtype, shape=(9,))] * 2
    ptx = ptx_of(copy_neighbours, arrays, 1, (9, 0))
    assert instructions == {*re.findall(r"(?:ld|st)\.global\.v[\w.]+", ptx)}


@pytest.mark.parametrize(("tiles", "sums"), [(1, 1 + 1 + 1), (32, 32 + 1 + 1), (33, 33 + 2 + 1), (1025, 1025 + 33 + 2)])
def test_each_sum_of_a_scan_has_its_words(tiles, sums):
    """A ticket, and a word for each 32 bits of the sums of all tiles, groups of 32 tiles and regions of 1024."""
    assert look_back_words(tiles, "float32") == 1 + sums
    assert look_back_words(tiles, "int64") == 1 + 2 * sums
