"""Measures the roofs of a CUDA device: its bandwidth and its arithmetic.

Bandwidth: XLA copies or reads as many bytes, in the same state of the cache. Arithmetic: a thread runs 16 independent
chains of fused multiply-adds; where tensor cores multiply, a large product of XLA's library. The fastest time counts.
"""

from __future__ import annotations

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from bridge import cuda_raw_kernel
from suites.kernels.half_precision import result_dtype, wide
from suites.timing.bandwidth import Roof, copy_text, rounded
from suites.timing.device_clock import device_clock

_LAUNCHES = 20


def roof(read_bytes: int, written_bytes: int, cache: str) -> Roof:
    """Returns the bandwidth to compare a call with.

    Args:
        read_bytes: Bytes that a call reads.
        written_bytes: Bytes that a call writes. A call that hardly writes is also compared with a maximum.
        cache: ``hot`` or ``cold``.
    """
    size, reads = rounded(read_bytes, written_bytes)
    programs = _PROGRAMS if reads else ["copy"]
    rate = max(_rate(size, program, cache == "cold") for program in programs)
    return Roof(rate, f"{copy_text(size, reads)}, {cache}")


# A few megabytes are read the fastest by the maxima of rows, which are a single kernel.
_PROGRAMS = {"copy": lambda x: x + 1, "maximum": jnp.max, "maxima of rows": lambda x: jnp.max(x, axis=1)}


@functools.cache
def _rate(size: int, program: str, cold: bool) -> float:
    """Measures the bytes per second of one of the programs on the first CUDA device."""
    device, call = jax.devices("cuda")[0], jax.jit(_PROGRAMS[program])
    words = size // (8 if program == "copy" else 4)
    rows = max(1, words >> 10)
    with jax.enable_x64(False), jax.default_device(device):
        x = jax.block_until_ready(jnp.ones((rows, max(1, words // rows)), jnp.float32))
        times = device_clock(device).times(lambda: call(x), _LAUNCHES, sweep=cold)
    return size / (1e-9 * min(each.span_ns for each in times))


TYPES = {"float32": "float", "float64": "double", "int32": "int", "int64": "long long"}
"""C++ types by dtype. Peaks of other dtypes are not measured."""

CHAINS = 16
"""Independent chains of each thread."""

STEPS = 8
"""Steps of all chains in one round of the loop."""

SOURCE = f"""
template <typename T> __global__ void peak_arithmetic(const T* numbers, T* out, int rounds) {{
    const T factor = numbers[0], term = numbers[1];
    T chains[{CHAINS}];
    #pragma unroll
    for (int k = 0; k < {CHAINS}; ++k) chains[k] = T(threadIdx.x + k);
    #pragma unroll 1
    for (int round = 0; round < rounds; ++round)
        #pragma unroll
        for (int step = 0; step < {STEPS}; ++step)
            #pragma unroll
            for (int k = 0; k < {CHAINS}; ++k) chains[k] = chains[k] * factor + term;
    T total = chains[0];
    #pragma unroll
    for (int k = 1; k < {CHAINS}; ++k) total += chains[k];
    out[blockIdx.x * blockDim.x + threadIdx.x] = total;
}}
"""

THREADS = 256
BLOCKS = 8 * 132
"""Enough to fill the largest GPUs; the peak of a smaller one is the same, measured for longer."""

ROUNDS = 256
LAUNCHES = 6


class WorkRoof(NamedTuple):
    """The least time of a call, and the resource that limits it.

    Attributes:
        seconds: The time.
        kind: Such as ``copy, memory`` or ``fused multiply-adds, float32 (64.4 Tflop/s)``.
    """

    seconds: float
    kind: str


def arithmetic_roof(flops: int, dtype: str) -> WorkRoof | None:
    """Returns the time of the operations of a call at the measured peak; None for a dtype without a peak.

    Args:
        flops: Operations of a call; a fused multiply-add counts as two.
        dtype: The dtype of the operations.
    """
    if dtype not in TYPES:
        return None
    rate = arithmetic_peak(dtype)
    return WorkRoof(flops / rate, f"fused multiply-adds, {dtype} ({rate / 1e12:.3g} Tflop/s)")


SIDE = 8192
"""Rows and columns of the product: cuBLAS fills a GPU with it."""


def product_roof(flops: int, numbers: str) -> WorkRoof:
    """Returns the time of the operations of a call at the rate of a large product, which a better kernel could exceed.

    Args:
        flops: Operations of a call; a multiplication and an addition count as two.
        numbers: What is multiplied: a dtype, or ``TF32``.
    """
    rate = product_rate(numbers)
    return WorkRoof(flops / rate, f"product of {SIDE} x {SIDE}, {numbers} ({rate / 1e12:.3g} Tflop/s)")


@functools.cache
def product_rate(numbers: str) -> float:
    """Measures operations per second of a large product on the first CUDA device. Its numbers are random.

    Products of zeros are faster, because they take less power.
    """
    device = jax.devices("cuda")[0]
    dtype, precision = ("float32", "tensorfloat32") if numbers == "TF32" else (numbers, "default")
    options = {"precision": precision, "preferred_element_type": result_dtype(dtype)}
    program = jax.jit(lambda A, B: jnp.matmul(A, B, **options))
    with jax.enable_x64(True), jax.default_device(device):
        A, B = (jax.random.normal(key, (SIDE, SIDE), wide(dtype)).astype(dtype) for key in map(jax.random.key, (0, 1)))
        jax.block_until_ready(program(A, B))
        times = device_clock(device).times(lambda: program(A, B), LAUNCHES)
    return 2.0 * SIDE**3 / (1e-9 * min(each.span_ns for each in times))


@functools.cache
def arithmetic_peak(dtype: str) -> float:
    """Measures operations per second in a dtype on the first CUDA device; a fused multiply-add counts as two."""
    device, name = jax.devices("cuda")[0], f"peak_arithmetic<{TYPES[dtype]}>"
    with jax.enable_x64(True):
        out = jax.ShapeDtypeStruct((BLOCKS * THREADS,), dtype)
        call = jax.jit(cuda_raw_kernel(SOURCE, name, out, grid=BLOCKS, block=THREADS, scalars=(np.int32(ROUNDS),)))
        numbers = jax.device_put(np.array([1, 0], dtype), device)
        jax.block_until_ready(call(numbers))
        times = device_clock(device).times(lambda: call(numbers), LAUNCHES)
    return 2.0 * BLOCKS * THREADS * CHAINS * STEPS * ROUNDS / (1e-9 * min(each.span_ns for each in times))
