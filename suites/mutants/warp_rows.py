"""Holds broken Warp kernels whose threads share a row on a GPU."""

from dataclasses import dataclass

import bridge
from suites.backends.backend import Backend
from suites.backends.warp import FOUR, WarpCallable, WarpKernel, scalar, wp
from suites.backends.warp_rows import rows_of, sum_of_lanes
from suites.mutants.mutant import mutant
from suites.ops.csr_matmat import OPERATOR as CSR_MATMAT
from suites.ops.csr_matmat import csr_matmat_fours_warp, groups_of
from suites.ops.matvec import OPERATOR as MATVEC
from suites.ops.matvec import matvec_warp
from suites.ops.softmax import OPERATOR as SOFTMAX
from suites.ops.softmax import softmax_warp

_ON_THE_CPU = "on the CPU a block is one thread, which shares its row with no other"


@dataclass(frozen=True)
class _OfThreads(WarpKernel):
    def unsupported(self, platform):
        return None if platform == "cuda" else _ON_THE_CPU


@dataclass(frozen=True)
class _OfGroups(WarpCallable):
    def unsupported(self, platform):
        return None if platform == "cuda" else _ON_THE_CPU


def zeros_beyond_the_end(dtype):
    rows = rows_of(dtype)
    return rows._replace(load_or_least=rows.load)


_SUM_OF_WARP = """
    auto combined = value;
#if defined(__CUDA_ARCH__)
    for (int step = 16; step > 0; step /= 2)
        combined += __shfl_xor_sync(0xffffffff, combined, step);
#endif
    return combined;
"""


def own_warp_only(dtype):
    element = scalar(dtype)

    @wp.func_native(_SUM_OF_WARP)
    def total_of_block(value: element) -> element: ...

    return rows_of(dtype)._replace(total_of_block=total_of_block)


def half_of_lanes(dtype, width, groups):
    return sum_of_lanes(dtype, width, max(groups // 2, 1))


def lost_groups(inputs, outs):
    """Adds up over half of the groups, and is the good function where columns are no fours."""
    (rows, columns), dtype = outs[0].shape, str(outs[0].dtype)
    if columns % FOUR or not columns:
        return CSR_MATMAT.kernels[Backend.WARP].make(inputs, outs)
    width, groups = groups_of(columns)
    kernel = csr_matmat_fours_warp(dtype, width, groups, half_of_lanes)
    sections = -(-columns // (width * FOUR))
    return bridge.jax_kernel(kernel, launch_dims=(sections, rows * width * groups), output_dims=(rows, columns))


def _of(operator, name, kernel, fault):
    """A mutant in one dtype only, which is enough to catch it."""
    return mutant(operator, name, Backend.WARP, kernel, fault, dtypes=("float32",), gradient=None)


def _options(operator):
    return operator.kernels[Backend.WARP].options


MUTANTS = (
    _of(
        SOFTMAX,
        "zeros_beyond_the_end",
        _OfThreads(lambda dtype: softmax_warp(dtype, zeros_beyond_the_end), _options(SOFTMAX)),
        "a row goes on with zeros, where its threads could keep more",
    ),
    _of(
        MATVEC,
        "own_warp_only",
        _OfThreads(lambda dtype: matvec_warp(dtype, own_warp_only), _options(MATVEC)),
        "each warp of a block takes its own sum for the sum of the row",
    ),
    _of(
        CSR_MATMAT,
        "lost_groups",
        _OfGroups(lost_groups, calls=1),
        "half of the groups of threads that share a row are not added up",
    ),
)
