"""Holds broken kernels in CUDA C++ of which only one tool of compute-sanitizer sees the fault: all results are right.

They are no mutants of the checks: ``python -m suites.sessions.sanitizers`` proves with them that each tool works.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from suites.backends.backend import Backend
from suites.backends.cuda_raw import RawKernel
from suites.mutants.mutant import table
from suites.ops.add import OPERATOR as ADD
from suites.ops.sum import OPERATOR as SUM

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
template <typename T> __global__ void kernel(const T* x, const T* y, T* out, long long size) {
    __shared__ T shift;
    if (threadIdx.x == 0) shift = T(0);
    else if (threadIdx.x >= 32)
        for (long long begin = clock64(); clock64() - begin < 200000;) {}
    else __syncwarp();
    if (threadIdx.x < 32) __syncwarp();
    volatile T* shared = &shift;
    long long i = (long long)blockIdx.x * 256 + threadIdx.x;
    if (i < size) out[i] = x[i] + y[i] + (threadIdx.x < 32 ? T(0) : *shared);
}"""

READS_BEFORE_WRITING = """
template <typename T> __global__ void kernel(const T* x, const T* y, T* out, long long size) {
    long long i = (long long)blockIdx.x * 256 + threadIdx.x;
    if (i >= size) return;
    volatile const T* before = out;
    T unused = before[i];
    out[i] = x[i] + y[i];
}"""

# The sum belongs to one thread, so that none of them needs the barrier.
BARRIER_OF_SOME = """
template <typename T> __global__ void kernel(const T* x, T* out, long long size) {
    if (threadIdx.x % 2) __syncthreads();
    if (blockIdx.x != 0 || threadIdx.x != 0) return;
    T total = T(0);
    for (long long i = 0; i < size; ++i) total += x[i];
    out[0] = total;
}"""


def _launch(inputs: Sequence[Any], outs: Sequence[Any]) -> dict[str, Any]:
    size = int(np.prod(inputs[0].shape))
    return {"grid": -(-size // THREADS), "block": THREADS, "scalars": (np.int64(size),)}


def _raw(of: Any, tool: str, name: str, source: str, fault: str) -> None:
    _broken(of, tool, fault, name=name)(RawKernel(source, lambda dtype: "kernel<float>", _launch))


_KERNELS, _broken = table(Backend.CUDA_RAW)
_raw(ADD, "memcheck", "read_past_the_end", READ_PAST_THE_END, "reads elements behind the end of an input")
_raw(ADD, "racecheck", "waits_without_barrier", WAITS_WITHOUT_BARRIER, "threads wait for no barrier")
_raw(ADD, "initcheck", "reads_before_writing", READS_BEFORE_WRITING, "reads each output before it writes it")
_raw(SUM, "synccheck", "barrier_of_some", BARRIER_OF_SOME, "a barrier that only every second thread reaches")

SANITIZED = {each.caught_by[0]: each for each in _KERNELS}
"""The mutants by the tool that catches them."""

OPERATORS = [each.operator for each in SANITIZED.values()]
