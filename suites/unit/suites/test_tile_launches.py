"""Launches of kernels in tile languages fit the dtype and the size."""

import jax
import pytest

from suites.kernels.rows_launch import triton_rows_launch
from suites.ops.attention import triton as attention_triton
from suites.ops.matmul import cutile as matmul_cutile
from suites.ops.matmul import triton as matmul_triton


def matrix(side, dtype):
    return jax.ShapeDtypeStruct((side, side), dtype)


@pytest.mark.parametrize(
    ("side", "dtype", "tile", "programs"),
    [(4096, "bfloat16", (128, 256), 132), (1024, "bfloat16", (64, 64), 256), (4096, "float32", (64, 64), 4096)],
)
def test_only_large_products_of_16_bits_have_large_tiles_and_persistent_programs(side, dtype, tile, programs):
    each = matrix(side, dtype)
    launch = matmul_triton.launch((each, each), (each,))
    assert (launch["ROWS"], launch["COLUMNS"], launch["grid"]) == (*tile, programs)
    assert launch["PERSISTENT"] == (programs == 132)
    assert ("hints" in matmul_cutile.launch((each, each), (each,))) == (programs == 132)


@pytest.mark.parametrize(("dtype", "queries"), [("float16", 64), ("float32", 32)])
def test_attention_takes_more_queries_of_16_bits_at_a_time(dtype, queries):
    each = jax.ShapeDtypeStruct((4096, 2, 128), dtype)
    launch = attention_triton.launch((each, each, each), (each,))
    assert (launch["QUERIES"], launch["grid"]) == (queries, (4096 // queries, 2))


@pytest.mark.parametrize(("columns", "rows", "warps"), [(512, 8, 4), (8192, 1, 8)])
def test_short_rows_share_a_program(columns, rows, warps):
    launch = triton_rows_launch((16384, columns))
    assert (launch["ROWS"], launch["num_warps"], launch["grid"]) == (rows, warps, (16384 // rows, 1))
