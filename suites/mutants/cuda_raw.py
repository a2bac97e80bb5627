"""Holds broken kernels in CUDA C++."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from suites.backends.backend import Backend
from suites.backends.cuda_raw import RawKernel, elementwise
from suites.backends.kernel import Kernel
from suites.backends.numba_cuda import THREADS
from suites.declare.operator import Operator
from suites.mutants.mutant import Mutant, mutant
from suites.ops.add import OPERATOR as ADD
from suites.ops.block_sum import OPERATOR as BLOCK_SUM
from suites.ops.exp_decay import OPERATOR as EXP_DECAY
from suites.ops.hadamard import OPERATOR as HADAMARD
from suites.ops.lif_step import OPERATOR as LIF_STEP
from suites.ops.relu import OPERATOR as RELU
from suites.ops.scale_add import OPERATOR as SCALE_ADD

MISSING_BARRIER = """
template <typename T> __global__ void kernel(const T* x, T* out, long long size) {
    __shared__ T sums[256];
    long long i = (long long)blockIdx.x * 256 + threadIdx.x;
    sums[threadIdx.x] = i < size ? x[i] : T(0);
    __syncthreads();
    for (int width = 128; width > 0; width /= 2)  // each step needs what the one before has written
        if (threadIdx.x < width) sums[threadIdx.x] += sums[threadIdx.x + width];
    if (threadIdx.x == 0) out[blockIdx.x] = sums[0];
}"""

FULL_BLOCKS_ONLY = """
template <typename T> __global__ void kernel(const T* a, const T* b, T* out, long long size) {
    long long first = (long long)blockIdx.x * 256;
    if (first + 256 <= size) out[first + threadIdx.x] = a[first + threadIdx.x] * b[first + threadIdx.x];
}"""


def _replaced(of: Operator, old: str, new: str) -> RawKernel:
    """The kernel of an operator with other text in its source."""
    kernel = of.kernels[Backend.CUDA_RAW]
    assert isinstance(kernel, RawKernel)
    assert old in kernel.source, old
    return replace(kernel, source=kernel.source.replace(old, new))


def _raw(source: str) -> RawKernel:
    """A kernel with a block for each THREADS elements of the first input."""

    def launch(inputs: Sequence[Any], outs: Sequence[Any]) -> dict[str, Any]:
        size = int(np.prod(inputs[0].shape))
        return {"grid": -(-size // THREADS), "block": THREADS, "scalars": (np.int64(size),)}

    return RawKernel(source, lambda dtype: "kernel<float>", launch)


def _cuda(of: Operator, name: str, kernel: Kernel, fault: str) -> Mutant:
    """A mutant in float32 only, which is enough to catch it."""
    return mutant(of, name, Backend.CUDA_RAW, kernel, fault, dtypes=("float32",))


MUTANTS = (
    _cuda(
        ADD,
        "lost_tail_raw",
        _replaced(ADD, "single = size - vectors * lanes", "single = head"),
        "elements after the last whole vector are never written",
    ),
    _cuda(
        SCALE_ADD,
        "lost_head_raw",
        _replaced(SCALE_ADD, "k < head ? k : k + vectors * lanes", "k + head + vectors * lanes"),
        "elements before the first whole vector are taken after the end",
    ),
    _cuda(
        RELU,
        "lost_vector_raw",
        _replaced(RELU, "vector < vectors", "vector + 1 < vectors"),
        "the last vector is never written",
    ),
    _cuda(BLOCK_SUM, "missing_barrier_raw", _raw(MISSING_BARRIER), "threads wait for each other only once"),
    _cuda(HADAMARD, "full_blocks_only", _raw(FULL_BLOCKS_ONLY), "elements of the last block are never written"),
    _cuda(
        RELU, "lost_nan_raw", elementwise("out[i] = fmaxf(x[i], 0.0f);", ("x",)), "the larger of NaN and zero is zero"
    ),
    _cuda(
        EXP_DECAY,
        "approximate",
        elementwise(
            "out[i] = x[i] * factor;",
            ("x", "decay"),
            constants="const T factor = T(1) - decay[0] + decay[0] * decay[0] / 2;",
        ),
        "the exponential is the beginning of its series",
    ),
    _cuda(
        LIF_STEP,
        "late_reset",
        elementwise(
            """const T v = V[i] + step * (-(V[i] - rest) * leak + current[i]);
            spikes[i] = v >= threshold;
            V_out[i] = V[i] >= threshold ? rest : v;""",
            ("V", "current", "tau_inv", "V_th", "V_rest", "dt"),
            ("T* V_out", "int* spikes"),
            "const T leak = tau_inv[0], threshold = V_th[0], rest = V_rest[0], step = dt[0];",
        ),
        "the reset looks at the potential before the step",
    ),
)
