"""Writes the CUDA C++ of element-wise kernels: loads and stores of 16 bytes, whatever the size and the addresses.

Bandwidth: by Little's law a GPU that moves 4.8 TB/s with a latency of 700 ns has 3.4 MB under way, 25 KB on each of its
132 multiprocessors. With 2048 threads on each, a load of 16 bytes per thread is enough, even with one input. It needs a
quarter of the instructions and of the requests of loads of four bytes. A second vector per thread makes no large kernel
faster: at 2**26 elements on an H200 it cost 1% in add and 3% in lif_step.

A load of 16 bytes needs an address that is a multiple of 16. XLA aligns whole arrays, but an array of a batch or of a
slice begins anywhere. So the elements before the first such address, the head, and those after the last whole vector,
the tail, are handled one by one. Arrays that never reach such an address at one index are handled one by one entirely.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

THREADS = 256
"""Threads of a block."""

FEW_THREADS = 128
"""Threads of a block for a small array: its blocks then spread over more multiprocessors."""

FEW_BELOW = 1 << 18
"""Bytes of the first output below which the blocks are small: with larger ones, most multiprocessors had none."""

BLOCKS = """
// Numbers of 16 bits: float32 when they are read, rounded when they are stored. NVRTC takes long to read cuda_fp16.h.
struct float16 {
    unsigned short bits;
    float16() = default;
    __device__ float16(float value) { asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(value)); }
    __device__ operator float() const {
        float value;
        asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
        return value;
    }
};
struct bfloat16 {
    unsigned short bits;
    bfloat16() = default;
    __device__ bfloat16(float value) { asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(value)); }
    __device__ operator float() const { return __uint_as_float((unsigned)bits << 16); }
};

template <typename T, int COUNT> struct alignas(COUNT * sizeof(T)) Vector { T at[COUNT]; };

// Elements of a vector: 16 bytes of the widest type.
template <typename... T> __device__ constexpr int lanes_of() {
    unsigned most = 1;
    ((most = sizeof(T) > most ? sizeof(T) : most), ...);
    return 16 / most;
}

// The quotient. In float it is exact to 2 ulp, with a fifth of the instructions of the rounded one (CUDA Math API,
// __fdividef). Divisors above 2**126 give zero.
template <typename T> __device__ __forceinline__ T quotient(T dividend, T divisor) { return dividend / divisor; }
template <> __device__ __forceinline__ float quotient(float dividend, float divisor) {
    return __fdividef(dividend, divisor);
}

// The vectors of an array. With an index of elements instead, as in array + head + LANES * vector, NVRTC makes four
// stores of each vector.
template <int LANES, typename T> __device__ __forceinline__ const Vector<T, LANES>* vectors_of(const T* array) {
    return (const Vector<T, LANES>*)array;
}
template <int LANES, typename T> __device__ __forceinline__ Vector<T, LANES>* vectors_of(T* array) {
    return (Vector<T, LANES>*)array;
}

// The index of the first element that begins a vector in all arrays; size if there is none.
template <int LANES, typename First, typename... Others>
__device__ __forceinline__ long long head_of(long long size, const First* first, const Others*... others) {
    const unsigned long long place = (unsigned long long)first / sizeof(First) % LANES;
    const long long head = place ? LANES - (long long)place : 0;
    const bool aligned = ((unsigned long long)first % sizeof(First) == 0) &
        (((unsigned long long)(others + head) % (LANES * sizeof(Others)) == 0) & ... & true);
    return aligned && head < size ? head : size;
}
"""
"""C++ templates that the kernels of :func:`elementwise_source` call."""


def elementwise_source(statement: str, inputs: Sequence[str], outputs: Sequence[str], constants: str) -> str:
    """Returns the source of a kernel template that runs a statement for each element.

    The statement is written twice: for single elements, and for vectors, where the names of the long arrays stand for
    the vectors in registers. The arrays that the statement indexes with ``i`` are the long ones.

    Args:
        statement: C++ that reads ``x[i]`` and writes ``out[i]``; ``T`` is the element type, and ``i`` is only an index.
            A number of 16 bits becomes a float in an operation.
        inputs: Names of the inputs, all of type ``const T*``.
        outputs: Types and names of the outputs, such as ``T* out``.
        constants: Statements before the loop over elements.
    """
    parameters = [f"const T* __restrict__ {name}" for name in inputs]
    parameters += [output.replace("*", "* __restrict__", 1) for output in outputs]
    read = [name for name in inputs if re.search(rf"\b{name}\s*\[\s*i\s*\]", statement)]
    written = [tuple(map(str.strip, output.split("*"))) for output in outputs]
    arrays = ", ".join([*read, *(name for _, name in written)])
    types = ", ".join(["T", *(kind for kind, _ in written)])
    lines = [
        *(f"const Vector<T, lanes> {name}_loaded = vectors_of<lanes>({name} + head)[vector];" for name in read),
        *(f"Vector<{kind}, lanes> {name}_stored;" for kind, name in written),
        "#pragma unroll",
        "for (int i = 0; i < lanes; ++i) {",
        *(f"    const T* {name} = {name}_loaded.at;" for name in read),
        *(f"    {kind}* {name} = {name}_stored.at;" for kind, name in written),
        f"    {statement}",
        "}",
        *(f"vectors_of<lanes>({name} + head)[vector] = {name}_stored;" for _, name in written),
    ]
    body = "\n        ".join(lines)
    return f"""{BLOCKS}
template <typename T> __global__ void kernel({", ".join(parameters)}, long long size) {{
    {constants}
    constexpr int lanes = lanes_of<{types}>();
    const long long head = head_of<lanes>(size, {arrays}), vectors = (size - head) / lanes;
    const long long vector = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (vector < vectors) {{
        {body}
    }}
    // The head and the tail; everything if the arrays have no common vectors.
    const long long single = size - vectors * lanes, threads = (long long)gridDim.x * blockDim.x;
    #pragma unroll 1
    for (long long k = vector; k < single; k += threads) {{
        const long long i = k < head ? k : k + vectors * lanes;
        {statement}
    }}
}}"""


def elementwise_launch(size: int, element_bytes: int) -> dict[str, int]:
    """Returns grid and block for so many elements: each thread has a vector.

    Args:
        size: Elements of an output.
        element_bytes: Bytes of the widest element.
    """
    block = FEW_THREADS if size * element_bytes < FEW_BELOW else THREADS
    lanes = max(16 // element_bytes, 1)
    return {"grid": max(-(-size // (lanes * block)), 1 if size else 0), "block": block}
