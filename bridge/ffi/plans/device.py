"""Executes plans that launch CUDA kernels on XLA's stream, once for each element of a batch.

When a call is lowered, everything about its launches is known except the addresses of the buffers. So the parameters
are a blob of words. At each call, native code copies the blob and writes the addresses into the copy. The same code
serves every CUDA kernel language.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from bridge.errors import SignatureError
from bridge.ffi.native.abi import ERROR, WORD_BYTES
from bridge.ffi.native.addresses import Arrays, c_string, keep
from bridge.ffi.native.call_frame import DEVICE_WORD, FOR_EXECUTE, HEADER_WORDS, STREAM_WORD, for_each_element
from bridge.ffi.native.words import (
    call2,
    call4,
    context_word,
    copy_words,
    create_error,
    load,
    native,
    stack_words,
    store,
)

OUT_OF_MEMORY = 2
"""``CUDA_ERROR_OUT_OF_MEMORY``."""

_MAX_BLOB_WORDS = 4096 // WORD_BYTES  # CUDA's limit for the parameters of a kernel before sm_70
_MAX_PARAMETERS = _MAX_BLOB_WORDS

_LAUNCHES, _LAUNCH_COUNT, _ALIGNMENTS = range(HEADER_WORDS, HEADER_WORDS + 3)
# Two words for each buffer: the lowest bits of an address that must be 0, and the error for an address where they are
# not.
_LOW_BITS, _MISALIGNED, _ALIGNMENT_WORDS = 0, 1, 2

# A launch begins with a ``CUlaunchConfig`` of cuda.h.
_CONFIG_WORDS = 7
_STREAM = 4
(_HANDLES, _DEVICES, _NAME, _PARAMETERS, _PARAMETER_COUNT, _BLOB, _BLOB_COUNT, _PATCH_COUNT) = range(
    _CONFIG_WORDS, _CONFIG_WORDS + 8
)
# Patches follow: three words each.
_PATCHES = _CONFIG_WORDS + 8
_WORD, _SOURCE, _BYTES, _PATCH_WORDS = 0, 1, 2, 3

# Of ``CUlaunchAttributeID`` in cuda.h. The value of a cluster has three extents of 32 bits, of the others the number 1.
_COOPERATIVE, _CLUSTER, _PROGRAMMATIC_STREAM_SERIALIZATION = 2, 4, 6
_ATTRIBUTE_WORDS = 9


@dataclass(frozen=True)
class Patch:
    """A word of the parameters that holds the address of a buffer.

    Attributes:
        word: Index of the word in the blob.
        buffer: Index of the buffer: inputs, then outputs.
        offset: Bytes added to the address of the buffer.
    """

    word: int
    buffer: int
    offset: int = 0


@dataclass(frozen=True)
class Launch:
    """One kernel launch.

    Attributes:
        name: The kernel, for error messages.
        handles: Its function handle (``CUfunction`` or ``CUkernel``) on each device, by XLA's ordinal.
        grid: Blocks in x, y, z.
        block: Threads of a block in x, y, z.
        shared_bytes: Dynamic shared memory of a block.
        blob: The parameters as 64-bit words.
        parameters: Byte offset of each parameter in the blob.
        sizes: Bytes of each parameter, which the driver is asked about; by default a word each.
        compiler: The package that lays the parameters out, as pip knows it; empty if the user wrote the signature.
        patches: The words that hold addresses of buffers.
        cooperative: Whether the blocks wait for each other, so that CUDA must run all of them at once.
        cluster: Blocks in x that form a cluster.
        overlaps: Whether it may begin before the launch before it in the plan has ended, because its kernel waits for
            that by itself. The first launch of a plan never overlaps.
    """

    name: str
    handles: tuple[int, ...]
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    shared_bytes: int
    blob: tuple[int, ...]
    parameters: tuple[int, ...]
    patches: tuple[Patch, ...]
    cooperative: bool = False
    overlaps: bool = False
    cluster: int = 1
    sizes: tuple[int, ...] = ()
    compiler: str = ""

    def __post_init__(self) -> None:
        if not self.sizes:
            object.__setattr__(self, "sizes", (WORD_BYTES,) * len(self.parameters))

    def keep(self, is_first: bool) -> int:
        """Copies the launch into memory that lives as long as the process; returns its address."""
        if len(self.blob) > _MAX_BLOB_WORDS or len(self.parameters) > _MAX_PARAMETERS:
            raise SignatureError(
                f"{self.name} takes {len(self.blob) * WORD_BYTES} bytes of parameters, expected at most "
                f"{_MAX_BLOB_WORDS * WORD_BYTES}. Pass fewer arrays, or arrays of fewer dimensions."
            )
        attributes = [(_COOPERATIVE, 1, 0)] if self.cooperative else []
        if self.cluster > 1:
            attributes.append((_CLUSTER, self.cluster | 1 << 32, 1))
        if self.overlaps and not is_first:
            attributes.append((_PROGRAMMATIC_STREAM_SERIALIZATION, 1, 0))
        held = keep([word for each in attributes for word in (*each, *[0] * (_ATTRIBUTE_WORDS - len(each)))])
        extents = np.array([*self.grid, *self.block], np.uint32).view(np.int64).tolist()  # of 32 bits in the struct
        words = [
            *extents, self.shared_bytes, 0, held, len(attributes),
            keep(self.handles), len(self.handles), c_string(self.name), keep(self.parameters), len(self.parameters),
            keep(self.blob), len(self.blob), len(self.patches),
        ]  # fmt: skip
        return keep([*words, *(word for each in self.patches for word in (each.word, each.buffer, each.offset))])


@dataclass(frozen=True)
class DevicePlan:
    """Launches to make, in order, on XLA's stream.

    Attributes:
        launches: The launches; none if every output is empty.
        alignments: The bytes, a power of two, of which each buffer's address must be a multiple: inputs, then outputs.
            By default none is checked. Where one is not, the call is an error: a kernel that reads several elements
            at once (``float4``) would end the process.
        alive: Owns the memory and the machine code that the plan refers to.
    """

    launches: Sequence[Launch]
    alignments: Sequence[int] = ()
    alive: Any = None

    def keep(self, arrays: Arrays) -> int:
        """Copies the plan into memory that lives as long as the process; returns its address.

        Raises:
            SignatureError: The kernel has more arrays or parameters than a plan can hold.
        """
        launches = [launch.keep(index == 0) for index, launch in enumerate(self.launches)]
        alignments = [
            word for index, each in enumerate(self.alignments) for word in (each - 1, _refusal(arrays, index, each))
        ]
        return keep([*arrays.header(), keep(launches), len(launches), keep(alignments) if alignments else 0])


def _refusal(arrays: Arrays, index: int, alignment: int) -> int:
    """Address of the error for a buffer at another address than the kernel needs."""
    last = index - len(arrays.inputs)
    return c_string(
        f"{arrays.name} needs {f'argument {index}' if last < 0 else f'output {last}'} at an address that is a "
        f"multiple of {alignment} bytes, but it, or an element of its batch, is at another one. "
        "Copy an array of another library before the call (jnp.copy), pad the rows of a batch to a multiple of "
        "these bytes, or use vmap_method='sequential'."
    )


@native
def driver_error(frame, status, describe, name):
    """The error of a call of CUDA's driver that returned ``status``; ``describe`` is the address of a function."""
    code = np.int64(ERROR.RESOURCE_EXHAUSTED) if status == OUT_OF_MEMORY else np.int64(ERROR.INTERNAL)
    return create_error(frame, code, call2(describe, status, name))


DESCRIBE = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)
"""Type of ``describe(status, name)``: the address of a C string about a failed launch of the kernel ``name``."""


_DRIVER_LAUNCH, _DESCRIBE, _NO_DEVICE = range(3)


def driver_words(launch: int, describe: int) -> int:
    """Address of the words that :func:`make_execute` needs in the context of its handler.

    Args:
        launch: Address of ``cuLaunchKernelEx``, or of a function like it.
        describe: Address of a :data:`DESCRIBE`.
    """
    return keep([launch, describe, c_string("the kernel was not loaded on this device, or uses arrays on another one")])


@native
def _launch(frame, plan, buffers, data, batch_rank):
    driver, ordinal, alignments = context_word(FOR_EXECUTE), load(data, DEVICE_WORD), load(plan, _ALIGNMENTS)
    config, blob = stack_words(_CONFIG_WORDS), stack_words(_MAX_BLOB_WORDS)
    parameters = stack_words(_MAX_PARAMETERS)
    for index in range(load(plan, _LAUNCH_COUNT)):
        about = load(load(plan, _LAUNCHES), index)
        kernel = load(load(about, _HANDLES), ordinal) if ordinal < load(about, _DEVICES) else np.int64(0)
        if kernel == 0:
            return create_error(frame, np.int64(ERROR.INTERNAL), load(driver, _NO_DEVICE))
        copy_words(blob, load(about, _BLOB), load(about, _BLOB_COUNT))
        for patch in range(load(about, _PATCH_COUNT)):
            at = _PATCHES + _PATCH_WORDS * patch
            buffer = load(about, at + _SOURCE)
            address = load(data, buffer)
            if alignments != 0 and address & load(alignments, _ALIGNMENT_WORDS * buffer + _LOW_BITS) != 0:
                message = load(alignments, _ALIGNMENT_WORDS * buffer + _MISALIGNED)
                return create_error(frame, np.int64(ERROR.INVALID_ARGUMENT), message)
            store(blob, load(about, at + _WORD), address + load(about, at + _BYTES))
        for parameter in range(load(about, _PARAMETER_COUNT)):
            store(parameters, parameter, blob + load(load(about, _PARAMETERS), parameter))
        copy_words(config, about, _CONFIG_WORDS)
        store(config, _STREAM, load(data, STREAM_WORD))
        status = call4(load(driver, _DRIVER_LAUNCH), config, kernel, parameters, 0) & 0xFFFFFFFF  # it has 32 bits
        if status != 0:
            return driver_error(frame, status, load(driver, _DESCRIBE), load(about, _NAME))
    return 0


def make_execute(on_stream: bool = True) -> Any:
    """Native ``(frame, plan) -> error`` that executes a :class:`DevicePlan`. It holds no address.

    Args:
        on_stream: Ask XLA for stream and device; if not, launch on stream 0 of device 0 (a stand-in for tests: XLA has
            no streams on the CPU).
    """
    return for_each_element(_launch, on_stream)
