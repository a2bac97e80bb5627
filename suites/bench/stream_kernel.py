"""Moves memory of a CUDA device as fast as a kernel can, in several ways, for the roofs that kernels are compared with.

The kernel reads from some arrays and writes to others, 16 bytes in each load and store. It is compiled by NVRTC and
launched through cuda-core: one compilation serves arrays of all sizes.
"""

from __future__ import annotations

import functools
import importlib
from typing import Any, NamedTuple

import jax
import numpy as np

from suites.bench.instruments import PREFIX, VECTOR_BYTES, scratch

SOURCE = """
template <int READ, int WRITE, int UNROLL>
__global__ void kernel_bridge_instrument_stream(
        const uint4* __restrict__ in, uint4* __restrict__ out, unsigned int count) {
    uint4 mixed = make_uint4(blockIdx.x, threadIdx.x, 0u, 1u);
    const unsigned int tile = blockDim.x * UNROLL;
    for (unsigned int begin = blockIdx.x * tile; begin < count; begin += gridDim.x * tile) {
        uint4 loaded[UNROLL][READ > 0 ? READ : 1];
        #pragma unroll
        for (int u = 0; u < UNROLL; ++u) {
            const unsigned int i = begin + u * blockDim.x + threadIdx.x;
            #pragma unroll
            for (int r = 0; r < READ; ++r) {
                if (i < count) loaded[u][r] = in[(size_t)r * count + i];
                else loaded[u][r] = make_uint4(0u, 0u, 0u, 0u);
            }
        }
        #pragma unroll
        for (int u = 0; u < UNROLL; ++u) {
            const unsigned int i = begin + u * blockDim.x + threadIdx.x;
            uint4 value = make_uint4(i, i, i, i);
            #pragma unroll
            for (int r = 0; r < READ; ++r) {
                value.x ^= loaded[u][r].x; value.y ^= loaded[u][r].y;
                value.z ^= loaded[u][r].z; value.w ^= loaded[u][r].w;
            }
            #pragma unroll
            for (int w = 0; w < WRITE; ++w) {
                if (i < count) out[(size_t)w * count + i] = value;
            }
            if (WRITE == 0) {
                mixed.x ^= value.x; mixed.y ^= value.y; mixed.z ^= value.z; mixed.w ^= value.w;
            }
        }
    }
    // Keeps the loads of a kernel that only reads; hardly ever true.
    if (WRITE == 0 && mixed.x == 0x9e3779b9u && mixed.y == 0x7f4a7c15u && mixed.z == mixed.w) out[0] = mixed;
}
"""


class Pattern(NamedTuple):
    """How many arrays of equal size a kernel reads and writes."""

    reads: int
    writes: int

    @property
    def written(self) -> float:
        """The share of all bytes that is written."""
        return self.writes / (self.reads + self.writes)

    @property
    def label(self) -> str:
        """The pattern in words."""
        return {
            (1, 0): "read",
            (3, 1): "3 reads per write",
            (2, 1): "2 reads per write",
            (1, 1): "copy",
            (1, 2): "2 writes per read",
            (0, 1): "write",
        }.get((self.reads, self.writes), f"{self.reads} reads, {self.writes} writes")


PATTERNS = (Pattern(1, 0), Pattern(3, 1), Pattern(2, 1), Pattern(1, 1), Pattern(1, 2), Pattern(0, 1))
"""From nothing written to everything."""


class Shape(NamedTuple):
    """How the kernel is launched.

    Attributes:
        block: Threads of a block.
        unroll: Vectors of each array that a thread loads before it stores any.
        stays: Whether the grid just fills the device, and its blocks loop; else there is a block for each tile.
    """

    block: int
    unroll: int
    stays: bool


SHAPES = (
    Shape(256, 1, False),
    Shape(1024, 1, False),
    Shape(128, 4, False),
    Shape(128, 2, False),
    Shape(256, 4, False),
    Shape(512, 2, False),
    Shape(128, 1, True),
    Shape(256, 1, True),
    Shape(256, 4, True),
    Shape(512, 2, True),
    Shape(1024, 2, True),
    Shape(1024, 4, True),
)

_THREADS_OF_MULTIPROCESSOR = 2048


class StreamKernels:
    """Launches the kernel on a device, in its own stream and on memory that only it uses.

    Args:
        device: A CUDA device.
        size_bytes: Memory to hold, for what is read and what is written together.

    Raises:
        ImportError: The package cuda-core is not installed.
    """

    def __init__(self, device: jax.Device, size_bytes: int):
        self._core = _core()
        self._memory = scratch(size_bytes, device)
        self._address = self._memory.unsafe_buffer_pointer()
        self._device = self._core.Device(device.local_hardware_id)
        self._device.set_current()
        self._stream = self._device.create_stream()
        self._architecture = "sm_{}{}".format(*self._device.compute_capability)

    def launch(self, pattern: Pattern, shape: Shape, working_set_bytes: int, begin_bytes: int) -> int:
        """Starts one transfer, and returns the bytes that it moves.

        Args:
            pattern: What to read and write.
            shape: How to launch.
            working_set_bytes: Bytes to move; whole vectors of each array are moved.
            begin_bytes: Where in the memory they lie, a multiple of :data:`~suites.bench.instruments.VECTOR_BYTES`.
        """
        arrays = pattern.reads + pattern.writes
        count = max(1, working_set_bytes // (VECTOR_BYTES * arrays))
        tiles = -(-count // (shape.block * shape.unroll))
        resident = self._device.properties.multiprocessor_count * (_THREADS_OF_MULTIPROCESSOR // shape.block)
        config = self._core.LaunchConfig(grid=min(tiles, resident) if shape.stays else tiles, block=shape.block)
        begin = self._address + begin_bytes
        kernel = stream_kernel(pattern, shape.unroll, self._architecture)
        written = begin + VECTOR_BYTES * count * pattern.reads
        self._core.launch(self._stream, config, kernel, begin, written if pattern.writes else begin, np.uint32(count))
        return VECTOR_BYTES * count * arrays

    def wait(self) -> None:
        """Waits until all transfers have ended."""
        self._stream.sync()


def expression_of(pattern: Pattern, unroll: int) -> str:
    """Returns the instance of the kernel, as C++ writes it."""
    return f"{PREFIX}_stream<{pattern.reads}, {pattern.writes}, {unroll}>"


@functools.cache
def stream_kernel(pattern: Pattern, unroll: int, architecture: str) -> Any:
    """Returns an instance of the kernel, loaded into the device."""
    return compiled_stream(pattern, architecture).get_kernel(expression_of(pattern, unroll))


@functools.cache
def compiled_stream(pattern: Pattern, architecture: str) -> Any:
    """Compiles the kernel for a pattern, in all shapes; needs no GPU.

    Args:
        pattern: The arrays.
        architecture: Such as ``sm_90``.

    Raises:
        ImportError: The package cuda-core is not installed.
    """
    core = _core()
    options = core.ProgramOptions(std="c++17", arch=architecture)
    names = tuple(expression_of(pattern, unroll) for unroll in sorted({shape.unroll for shape in SHAPES}))
    return core.Program(SOURCE, "c++", options).compile("cubin", name_expressions=names)


def _core() -> Any:
    core: Any = importlib.import_module("cuda.core")
    return core if hasattr(core, "Program") else importlib.import_module("cuda.core.experimental")
