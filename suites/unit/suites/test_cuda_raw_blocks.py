"""Element-wise CUDA C++ kernels: run on the CPU by a C++ compiler, thread after thread, and their code for GPUs."""

from __future__ import annotations

import ctypes
import functools
import re
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from reports import Status
from suites.backends.backend import Backend
from suites.backends.cuda_raw import NO_CUDA_CORE, TYPES
from suites.backends.cuda_raw_blocks import elementwise_launch
from suites.mutants.cuda_raw import MUTANTS
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


FAULTY_BLOCKS = ("lost_tail_raw", "lost_head_raw", "lost_vector_raw")


@compiled
@pytest.mark.parametrize("fault", FAULTY_BLOCKS)
def test_fault_in_the_blocks_shows(fault: str) -> None:
    (mutant,) = (each for each in MUTANTS if each.name.endswith(f"~{fault}"))
    kernel = mutant.operator.kernels[Backend.CUDA_RAW]
    statuses = set()
    for size in SIZES:
        inputs = mutant.operator.sample("float32", size, 0)
        outs = mutant.operator.outputs(*inputs)
        results = run(kernel, inputs, outs, offsets_of(inputs, outs, "shifted"))
        statuses.add(judge(results, mutant.operator.truth(*inputs)).status)
    assert statuses - {Status.PASSED}


@compiled
def test_writing_beyond_the_end_shows() -> None:
    kernel = STREAMS["add"]
    faulty = replace(kernel, source=kernel.source.replace("vector < vectors", "vector <= vectors"))
    inputs = operators()["add"].sample("float32", 1025, 0)
    with pytest.raises(AssertionError):
        run(faulty, inputs, operators()["add"].outputs(*inputs), (0, 0, 0))


@pytest.mark.skipif(NO_CUDA_CORE is not None, reason=str(NO_CUDA_CORE))
@pytest.mark.parametrize("name", STREAMS)
def test_every_array_moves_in_vectors_of_16_bytes(name: str) -> None:
    code = ptx(STREAMS[name].source, "kernel<float>")
    operator = operators()[name]
    inputs = operator.sample("float32", 64, 0)
    long_inputs = sum(array.size >= 64 for array in inputs)
    assert len(re.findall(r"ld\.global\.nc\.v4\.[fbu]32", code)) >= long_inputs
    assert len(re.findall(r"st\.global\.v4\.[fbu]32", code)) >= len(operator.outputs(*inputs))
    assert ".local" not in code
    assert ".f64" not in code


def ptx(source: str, name: str) -> str:
    """The PTX of a kernel; needs no GPU."""
    from cuda.bindings import nvrtc
    from cuda.core import Program, ProgramOptions

    program = Program(source, "c++", ProgramOptions(std="c++17", arch="sm_90"))
    program.compile("cubin", name_expressions=(name,))
    _, size = nvrtc.nvrtcGetPTXSize(int(program.handle))
    text = bytes(size)
    nvrtc.nvrtcGetPTX(int(program.handle), text)
    return text.decode()


@pytest.mark.parametrize("element_bytes", [4, 8])
@pytest.mark.parametrize("size", [0, 1, 4095, 4096, 4097, 2**20 + 1])
def test_grid_covers_all_vectors(size: int, element_bytes: int) -> None:
    launch = elementwise_launch(size, element_bytes)
    threads = launch["grid"] * launch["block"]
    assert threads * 16 >= size * element_bytes
    assert (threads == 0) == (size == 0)
