"""What a record says of a kernel beside its time: its numbers, its launch, and how long its code is."""

import jax.numpy as jnp
import numba
import pytest

from suites import NumbaKernel, Operator
from suites.backends import BACKENDS
from suites.cells.case import Case
from suites.ops import operators
from suites.timing.kernel_facts import arithmetic, code_lines, launch_of


@numba.njit
def root(x):
    """A docstring
    of two lines."""
    return x**0.5


@numba.njit(parallel=True)
def roots(x, out):
    # a comment

    for i in numba.prange(
        x.size,
    ):
        out[i] = root(
            x[i],
        )


ROOTS = Operator(name="roots", reference=lambda x: jnp.sqrt(x), kernels={"numba_parallel": roots})


def case(operator, backend="jnp", dtype="float32"):
    declared = operators()[operator] if isinstance(operator, str) else operator
    return Case(declared, BACKENDS[backend], dtype, 64, "cuda")


def test_the_code_of_a_kernel_and_of_its_helpers_is_counted_without_comments_and_brackets():
    assert code_lines(NumbaKernel(root)) == 3
    assert code_lines(ROOTS.kernels[BACKENDS["numba_parallel"]]) == 3 + 6


@pytest.mark.parametrize(
    ("operator", "backend"), [("matmul", "mosaic_gpu"), ("matmul", "jax_triton"), ("add", "cutlass")]
)
def test_the_code_of_others_is_not_counted(operator, backend):
    assert code_lines(operators()[operator].kernels[BACKENDS[backend]]) is None


@pytest.mark.parametrize("backend", ["warp", "warp_tile", "cutile_kernel", "triton", "cuda_raw", "numba_cuda"])
def test_the_code_of_each_language_is_found(backend):
    kernels = [each.kernels.get(BACKENDS[backend]) for each in operators().values()]
    lines = [code_lines(each) for each in kernels if each is not None]
    assert len(lines) > 2
    assert all(count is not None and 3 < count < 200 for count in lines)


@pytest.mark.parametrize(
    ("operator", "dtype", "said"),
    [
        ("matmul", "float32", "float32"),
        ("matmul_tf32", "float32", "products of TF32, sums of float32"),
        ("matmul", "bfloat16", "products of bfloat16, sums of float32"),
        ("attention", "float64", "float64"),
        ("softmax", "float16", "float32"),
        (ROOTS, "float64", "float64"),
        ("add", "int32", None),
    ],
)
def test_the_numbers_that_a_reference_computes_in(operator, dtype, said):
    assert arithmetic(case(operator, dtype=dtype)) == said


def test_a_launch_has_the_sizes_of_the_blocks():
    inputs = operators()["matmul"].sample("bfloat16", 2048**2, 0)
    launch = launch_of(case("matmul", "triton", "bfloat16"), inputs)
    assert (launch["ROWS"], launch["COLUMNS"], launch["num_warps"]) == (128, 256, 8)
    assert launch_of(case("matmul", "numba"), inputs) is None
