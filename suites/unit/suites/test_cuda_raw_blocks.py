"""Element-wise CUDA C++ kernels: run on the CPU by a C++ compiler, thread after thread, and their code for GPUs."""

from __future__ import annotations

import ctypes
import functools
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from reports import Status
from suites.backends.backend import Backend
from suites.backends.cuda_raw import TYPES
from suites.numerics.verdict import judge
from suites.ops import operators

COMPILER = shutil.which("g++") or shutil.which("clang++")
compiled = pytest.mark.skipif(COMPILER is None, reason="there is no C++ compiler")

STREAMS = {
    name: operator.kernels[Backend.CUDA_RAW]
    for name, operator in operators().items()
    if operator.elementwise and Backend.CUDA_RAW in operator.kernels
}
"""The element-wise kernels, by operator."""

HEADER = """
#include <cmath>
#define __global__ static
#define __device__
#define __forceinline__ inline
#define __restrict__
using std::exp; using std::sqrt;
static float __fdividef(float a, float b) { return a / b; }
static struct { unsigned x; } gridDim, blockDim, blockIdx, threadIdx;
"""
"""What CUDA C++ has and C++ has not, for kernels whose threads do not wait for each other."""

SIZES = (1, 2, 3, 5, 8, 255, 1023, 1024, 1025, 4099)
GUARD = 32
"""Elements before and after each array, which no kernel may touch."""


@functools.cache
def library(source: str, dtype: str, arrays: int) -> Any:
    """The kernel as a C function of grid, block, the addresses of its arrays, and the size."""
    addresses = ", ".join(f"(decltype(nth<{i}>(kernel<{TYPES[dtype]}>)))arrays[{i}]" for i in range(arrays))
    program = f"""{HEADER}{source}
template <int I, typename... A> auto nth(void (*)(A...)) -> std::tuple_element_t<I, std::tuple<A...>>;
extern "C" void run(unsigned grid, unsigned block, void** arrays, long long size) {{
    gridDim.x = grid, blockDim.x = block;
    for (blockIdx.x = 0; blockIdx.x < grid; ++blockIdx.x)
        for (threadIdx.x = 0; threadIdx.x < block; ++threadIdx.x)
            kernel<{TYPES[dtype]}>({addresses}, size);
}}"""
    with tempfile.TemporaryDirectory() as folder:
        path, out = Path(folder) / "kernel.cpp", Path(folder) / "kernel.so"
        path.write_text("#include <tuple>\n" + program)
        flags = [
            "-std=c++17",
            "-O1",
            "-fno-strict-aliasing",
            "-w",
            "-shared",
            "-fPIC",
            "-fsanitize=alignment",
            "-fsanitize-undefined-trap-on-error",
        ]
        subprocess.run([str(COMPILER), *flags, "-o", str(out), str(path)], check=True, timeout=60)
        return ctypes.CDLL(str(out)).run


def placed(array: np.ndarray, offset: int) -> tuple[np.ndarray, np.ndarray]:
    """A copy that begins ``offset`` elements after an address that is a multiple of 128, and all of its memory."""
    memory = np.zeros(array.nbytes + 2 * GUARD * array.itemsize + 256, np.uint8)
    memory[:] = 0xA5
    begin = -memory.ctypes.data % 128 + (GUARD + offset) * array.itemsize
    view = memory[begin : begin + array.nbytes].view(array.dtype).reshape(array.shape)
    view[...] = array
    return view, memory


def run(kernel: Any, inputs: Sequence[np.ndarray], outs: Sequence[Any], offsets: Sequence[int]) -> list[np.ndarray]:
    """The results of a kernel for arrays at these offsets, in elements; requires that it writes nothing else."""
    launch = kernel.launch(inputs, outs)
    empty = [np.full(out.shape, 0xA5, out.dtype) for out in outs]
    arrays = [placed(array, offset) for array, offset in zip([*inputs, *empty], offsets, strict=True)]
    pointers = (ctypes.c_void_p * len(arrays))(*(view.ctypes.data for view, _ in arrays))
    size = int(launch["scalars"][0])
    call = library(kernel.source, str(inputs[0].dtype), len(arrays))
    call(launch["grid"], launch["block"], pointers, ctypes.c_longlong(size))
    for view, memory in arrays:
        begin = view.ctypes.data - memory.ctypes.data
        assert (memory[:begin] == 0xA5).all()
        assert (memory[begin + view.nbytes :] == 0xA5).all()
    return [view for view, _ in arrays[len(inputs) :]]


def offsets_of(inputs: Sequence[np.ndarray], outs: Sequence[Any], case: str) -> list[int]:
    """Where arrays begin: all at an aligned address, all three elements after one, or each somewhere else."""
    count = len(inputs) + len(outs)
    return {"aligned": [0] * count, "shifted": [3] * count, "mixed": list(range(count))}[case]


@compiled
@pytest.mark.parametrize("case", ["aligned", "shifted", "mixed"])
@pytest.mark.parametrize("name", STREAMS)
def test_kernel_is_right_at_every_size_and_address(name: str, case: str) -> None:
    operator = operators()[name]
    dtype = operator.dtypes[0] if case == "mixed" else operator.dtypes[1]
    for size in SIZES:
        inputs = operator.sample(dtype, size, size)
        outs = operator.outputs(*inputs)
        results = run(STREAMS[name], inputs, outs, offsets_of(inputs, outs, case))
        verdict = judge(results, operator.truth(*inputs))
        assert verdict.status is Status.PASSED, (size, verdict.reason)
