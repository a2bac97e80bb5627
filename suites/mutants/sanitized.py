"""Holds broken kernels in CUDA C++ of which only one tool of compute-sanitizer sees the fault: all results are right.

They are no mutants of the checks: ``kernel-bridge sanitize --mutants`` proves with them that each tool works.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from suites.backends.backend import Backend
from suites.backends.cuda_raw import RawKernel
from suites.mutants.mutant import Mutant, mutant
from suites.ops.add import OPERATOR as ADD
from suites.ops.block_sum import OPERATOR as BLOCK_SUM
from suites.ops.exp_decay import OPERATOR as EXP_DECAY
from suites.ops.relu import OPERATOR as RELU

THREADS = 256

# An array of 2100 floats ends within its allocation of 8448 bytes, after which CUDA leaves 256 bytes to the next one.
READ_PAST_THE_END = """
template <typename T> __global__ void kernel(const T* x, const T* y, T* out, long long size) {
    long long i = (long long)blockIdx.x * 256 + threadIdx.x;
    if (i >= size) return;
    volatile const T* ahead = x + 2112;
    T unused = ahead[i % 32];
    out[i] = x[i] + y[i];
}"""

# The other threads wait for a while, which is longer than the first one needs, but no barrier.
WAITS_WITHOUT_BARRIER = """
template <typename T> __global__ void kernel(const T* x, const T* decay, T* out, long long size) {
    __shared__ T factor;
    if (threadIdx.x == 0) factor = exp(-decay[0]);
    else if (threadIdx.x >= 32)
        for (long long begin = clock64(); clock64() - begin < 200000;) {}
    else __syncwarp();
    if (threadIdx.x < 32) __syncwarp();
    volatile T* shared = &factor;
    long long i = (long long)blockIdx.x * 256 + threadIdx.x;
    if (i < size) out[i] = x[i] * (threadIdx.x < 32 ? (T)exp(-decay[0]) : *shared);
}"""

READS_BEFORE_WRITING = """
template <typename T> __global__ void kernel(const T* x, T* out, long long size) {
    long long i = (long long)blockIdx.x * 256 + threadIdx.x;
    if (i >= size) return;
    volatile const T* before = out;
    T unused = before[i];
    out[i] = x[i] <= T(0) ? T(0) : x[i];
}"""

# Each sum belongs to one thread, so that none of them needs the barrier.
BARRIER_OF_SOME = """
template <typename T> __global__ void kernel(const T* x, T* out, long long size) {
    long long first = (long long)blockIdx.x * 256;
    if (threadIdx.x % 2) __syncthreads();
    if (threadIdx.x != 0) return;
    T total = T(0);
    for (long long i = first; i < first + 256 && i < size; ++i) total += x[i];
    out[blockIdx.x] = total;
}"""


def _launch(inputs: Sequence[Any], outs: Sequence[Any]) -> dict[str, Any]:
    size = int(np.prod(inputs[0].shape))
    return {"grid": -(-size // THREADS), "block": THREADS, "scalars": (np.int64(size),)}


def _raw(of: Any, name: str, source: str, fault: str) -> Mutant:
    kernel = RawKernel(source, lambda dtype: "kernel<float>", _launch)
    return mutant(of, name, Backend.CUDA_RAW, kernel, fault, dtypes=("float32",), gradient=None)


SANITIZED = {
    "memcheck": _raw(ADD, "read_past_the_end", READ_PAST_THE_END, "reads elements behind the end of an input"),
    "racecheck": _raw(EXP_DECAY, "waits_without_barrier", WAITS_WITHOUT_BARRIER, "threads wait for no barrier"),
    "initcheck": _raw(RELU, "reads_before_writing", READS_BEFORE_WRITING, "reads each output before it writes it"),
    "synccheck": _raw(BLOCK_SUM, "barrier_of_some", BARRIER_OF_SOME, "a barrier that only every second thread reaches"),
}
"""The mutants by the tool that catches them."""

OPERATORS = [each.operator for each in SANITIZED.values()]
