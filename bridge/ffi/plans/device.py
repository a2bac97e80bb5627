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
from bridge.ffi.native.abi import BUFFER, ERROR, WORD_BYTES
from bridge.ffi.native.addresses import c_string
from bridge.ffi.native.batch import batch_elements, batch_offset
from bridge.ffi.native.call_frame import MAX_BUFFERS, collect_buffers, miscounted, stream_and_device
from bridge.ffi.native.handler import create_error, native
from bridge.ffi.native.lasting import keep
from bridge.ffi.native.words import (
    call2,
    call_cooperative_launch,
    call_launch,
    call_launch_with,
    load,
    stack_words,
    store,
)
from bridge.ffi.plans.driver_status import OUT_OF_MEMORY

_MAX_BLOB_WORDS = 4096 // WORD_BYTES  # CUDA's limit for the parameters of a kernel before sm_70
_MAX_PARAMETERS = _MAX_BLOB_WORDS

_HEADER_WORDS = 6
(_INPUTS, _OUTPUTS, _LAUNCHES, _LAUNCH_COUNT, _BUFFERS, _MISCOUNTED) = range(_HEADER_WORDS)
_RANK, _ITEM_BYTES, _BUFFER_WORDS = 0, 1, 2

_LAUNCH_WORDS = 17
(_HANDLES, _DEVICES, _NAME, _GRID) = range(4)  # followed by grid, block and shared memory: seven words
(_PARAMETERS, _PARAMETER_COUNT, _BLOB, _BLOB_COUNT) = range(_GRID + 7, _GRID + 11)
_COOPERATIVE, _OVERLAPS = _GRID + 11, _GRID + 12
# Patches follow: their count, then three words each.
_PATCHES = _LAUNCH_WORDS
_WORD, _SOURCE, _BYTES, _PATCH_WORDS = 0, 1, 2, 3


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
        patches: The words that hold addresses of buffers.
        cooperative: Whether the blocks wait for each other, so that CUDA must run all of them at once.
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

    def keep(self) -> int:
        """Copies the launch into memory that lives as long as the process; returns its address."""
        if len(self.blob) > _MAX_BLOB_WORDS or len(self.parameters) > _MAX_PARAMETERS:
            raise SignatureError(
                f"{self.name} takes {len(self.blob) * WORD_BYTES} bytes of parameters, expected at most "
                f"{_MAX_BLOB_WORDS * WORD_BYTES}. Pass fewer arrays, or arrays of fewer dimensions."
            )
        words = [
            keep(self.handles), len(self.handles), c_string(self.name), *self.grid, *self.block,
            self.shared_bytes, keep(self.parameters), len(self.parameters), keep(self.blob),
            len(self.blob), int(self.cooperative), int(self.overlaps), len(self.patches),
        ]  # fmt: skip
        for patch in self.patches:
            words += [patch.word, patch.buffer, patch.offset]
        return keep(words)


@dataclass(frozen=True)
class DevicePlan:
    """Launches to make, in order, on XLA's stream.

    Attributes:
        name: The kernel, for error messages.
        inputs: Rank (without batch dimensions) and item size in bytes of each input.
        outputs: The same of each output; at least one.
        launches: The launches; none if every output is empty.
    """

    name: str
    inputs: Sequence[tuple[int, int]]
    outputs: Sequence[tuple[int, int]]
    launches: Sequence[Launch]

    def keep(self) -> int:
        """Copies the plan into memory that lives as long as the process; returns its address.

        Raises:
            SignatureError: The kernel has more arrays or parameters than a plan can hold.
        """
        buffers = [*self.inputs, *self.outputs]
        header = [0] * _HEADER_WORDS
        header[_INPUTS], header[_OUTPUTS] = len(self.inputs), len(self.outputs)
        header[_LAUNCHES] = keep([launch.keep() for launch in self.launches])
        header[_LAUNCH_COUNT] = len(self.launches)
        header[_BUFFERS] = keep([word for buffer in buffers for word in buffer])
        header[_MISCOUNTED] = miscounted(self.name, self.inputs, self.outputs)
        return keep(header)


_OUT_OF_MEMORY = np.int64(OUT_OF_MEMORY)


@native
def driver_error(frame, status, describe, name):
    """The error of a call of CUDA's driver that returned ``status``; ``describe`` is the address of a function."""
    code = np.int64(ERROR.RESOURCE_EXHAUSTED) if status == _OUT_OF_MEMORY else np.int64(ERROR.INTERNAL)
    return create_error(frame, code, call2(describe, status, name))


DESCRIBE = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)
"""Type of ``describe(status, name)``: the address of a C string about a failed launch of the kernel ``name``."""


# A ``CUlaunchConfig`` with one attribute, as words. Three numbers of 32 bits and three more are grid and block.
_CONFIG_WORDS, _ATTRIBUTE_WORDS = 7, 9
(_CONFIG_SHARED, _CONFIG_STREAM, _CONFIG_ATTRIBUTES, _CONFIG_ATTRIBUTE_COUNT) = range(3, _CONFIG_WORDS)
_PROGRAMMATIC_STREAM_SERIALIZATION = 6
"""CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION: CUDA Driver API, "CUlaunchAttributeID"."""


@native
def _pair(words, index):
    """Two words as the numbers of 32 bits that they hold, in one word."""
    return load(words, index) | (load(words, index + 1) << 32)


@native
def _launch_overlapping(launch, kernel, dimensions, stream, parameters):
    """Calls ``cuLaunchKernelEx`` at the address ``launch``, so that the launch need not wait for the one before it."""
    configuration, attribute = stack_words(_CONFIG_WORDS), stack_words(_ATTRIBUTE_WORDS)
    for index in range(_CONFIG_SHARED):
        store(configuration, index, _pair(dimensions, 2 * index))
    store(configuration, _CONFIG_SHARED, load(dimensions, 2 * _CONFIG_SHARED))
    store(configuration, _CONFIG_STREAM, stream)
    store(configuration, _CONFIG_ATTRIBUTES, attribute)
    store(configuration, _CONFIG_ATTRIBUTE_COUNT, 1)
    for index in range(_ATTRIBUTE_WORDS):
        store(attribute, index, 0)
    store(attribute, 0, _PROGRAMMATIC_STREAM_SERIALIZATION)
    store(attribute, 1, 1)
    return call_launch_with(launch, configuration, kernel, parameters)


def compile_execute(
    launch: int, cooperative_launch: int, overlapping_launch: int, describe: int, on_stream: bool = True
) -> Any:
    """Native ``(frame, plan) -> error`` that executes a :class:`DevicePlan`.

    Args:
        launch: Address of ``cuLaunchKernel``, or of a function like it.
        cooperative_launch: Address of ``cuLaunchCooperativeKernel``, or of a function like it.
        overlapping_launch: Address of ``cuLaunchKernelEx``, or of a function like it.
        describe: Address of a :data:`DESCRIBE`.
        on_stream: Ask XLA for stream and device; if not, launch on stream 0 of device 0 (a stand-in for tests: XLA has
            no streams on the CPU).
    """
    launch_address, cooperative_address = np.int64(launch), np.int64(cooperative_launch)
    overlapping_address, describe_address = np.int64(overlapping_launch), np.int64(describe)
    no_device = np.int64(c_string("the kernel was not loaded on this device"))

    @native
    def execute(frame, plan):
        inputs, outputs = load(plan, _INPUTS), load(plan, _OUTPUTS)
        buffers = stack_words(MAX_BUFFERS)
        if not collect_buffers(frame, inputs, outputs, buffers):
            return create_error(frame, np.int64(ERROR.INVALID_ARGUMENT), load(plan, _MISCOUNTED))
        where = stack_words(2)
        store(where, 0, 0)
        store(where, 1, 0)
        if on_stream:
            error = stream_and_device(frame, where)
            if error != 0:
                return error
        stream, ordinal = load(where, 0), load(where, 1)

        sizes, count = load(plan, _BUFFERS), inputs + outputs
        last_output = load(buffers, count - 1)
        batch_rank = load(last_output, BUFFER.RANK) - load(sizes, _BUFFER_WORDS * (count - 1) + _RANK)
        blob, parameters = stack_words(_MAX_BLOB_WORDS), stack_words(_MAX_PARAMETERS)
        for element in range(batch_elements(last_output, batch_rank)):
            for index in range(load(plan, _LAUNCH_COUNT)):
                about = load(load(plan, _LAUNCHES), index)
                kernel = load(load(about, _HANDLES), ordinal) if ordinal < load(about, _DEVICES) else np.int64(0)
                if kernel == 0:
                    return create_error(frame, np.int64(ERROR.INTERNAL), no_device)
                for word in range(load(about, _BLOB_COUNT)):
                    store(blob, word, load(load(about, _BLOB), word))
                for parameter in range(load(about, _PARAMETER_COUNT)):
                    store(parameters, parameter, blob + load(load(about, _PARAMETERS), parameter))
                for patch in range(load(about, _PATCHES - 1)):
                    at = _PATCHES + _PATCH_WORDS * patch
                    source = load(about, at + _SOURCE)
                    buffer = load(buffers, source)
                    address = load(buffer, BUFFER.DATA) + load(about, at + _BYTES)
                    if batch_rank != 0:
                        size = _BUFFER_WORDS * source
                        address += batch_offset(
                            buffer, load(sizes, size + _RANK), load(sizes, size + _ITEM_BYTES),
                            last_output, batch_rank, element,
                        )  # fmt: skip
                    store(blob, load(about, at + _WORD), address)
                dimensions = about + WORD_BYTES * _GRID
                if load(about, _COOPERATIVE) != 0:
                    status = call_cooperative_launch(cooperative_address, kernel, dimensions, stream, parameters)
                elif index != 0 and load(about, _OVERLAPS) != 0:
                    status = _launch_overlapping(overlapping_address, kernel, dimensions, stream, parameters)
                else:
                    status = call_launch(launch_address, kernel, dimensions, stream, parameters)
                if status != 0:
                    return driver_error(frame, status, describe_address, load(about, _NAME))
        return 0

    return execute
