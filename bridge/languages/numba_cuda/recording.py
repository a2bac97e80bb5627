"""Records the launches of a Python function once, so that native code can replay them. Imports numba-cuda.

The function runs on a stream in capture mode: CUDA notes each launch with its parameters and executes nothing. Words of
the parameters that are addresses in the function's arrays or temporaries are replaced at each call. All others are
constant. This is right for functions whose launches depend only on the shapes of their arguments.
"""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from cuda.bindings import driver as cu
from numba import cuda
from numba.cuda.cudadrv import devices
from numba.cuda.cudadrv.devicearray import DeviceNDArray
from numba.cuda.cudadrv.driver import MemoryPointer

from bridge.errors import RecordingError
from bridge.ffi.cuda import driver
from bridge.ffi.cuda.ordinals import handles_table
from bridge.ffi.native.abi import WORD_BYTES
from bridge.ffi.plans.device import Launch, Patch
from bridge.languages.numba_cuda.device_memory import allocating_with, check, hook
from bridge.languages.numba_cuda.launcher import only_on

_ADVICE = (
    "With replay=True the function may only launch kernels on the stream it is given and make arrays with "
    "cuda.device_array; it must not synchronise, copy to the host, or read data. Pass replay=False to run it at each "
    "call."
)


@dataclass(frozen=True)
class Recording:
    """The launches and temporaries of one function.

    Attributes:
        launches: The launches, in order. Buffers are numbered: the arrays given to the function, then its temporaries.
        temporaries: Bytes of each temporary.
    """

    launches: tuple[Launch, ...]
    temporaries: tuple[int, ...]


def record(
    name: str,
    function: Callable[..., Any],
    shapes: Sequence[tuple[tuple[int, ...], Any]],
    ordinals: Sequence[int],
    may_launch_nothing: bool = False,
) -> Recording:
    """Records a function on each device.

    Args:
        name: The function, for errors.
        function: Called as ``function(array, ..., stream)``.
        shapes: Shape and dtype of each array.
        ordinals: The devices to record on. The launches must be the same on all of them, except for handles.
        may_launch_nothing: Whether all outputs are empty, so that a function without launches is right.

    Raises:
        RecordingError: The function raised, did something that cannot be replayed, or differs between devices.
    """
    recordings = [_record_on(name, function, shapes, ordinal) for ordinal in ordinals]
    first = recordings[0]
    if not first.launches and not may_launch_nothing:
        raise RecordingError(f"{name} launched nothing on the stream it was given. {_ADVICE}")
    handles: list[dict[int, int]] = [{} for _ in first.launches]
    for ordinal, recording in zip(ordinals, recordings, strict=True):
        if _without_handles(recording) != _without_handles(first):
            raise RecordingError(
                f"{name} launched other work on CUDA device {ordinal} than on {ordinals[0]}. {_ADVICE}"
            )
        for known, launch in zip(handles, recording.launches, strict=True):
            known[ordinal] = launch.handles[0]
    launches = (
        replace(launch, handles=handles_table(known)) for launch, known in zip(first.launches, handles, strict=True)
    )
    return Recording(tuple(launches), first.temporaries)


def _without_handles(recording: Recording) -> Recording:
    return replace(recording, launches=tuple(replace(launch, handles=()) for launch in recording.launches))


def _record_on(
    name: str, function: Callable[..., Any], shapes: Sequence[tuple[tuple[int, ...], Any]], ordinal: int
) -> Recording:
    with cuda.gpus[ordinal], contextlib.ExitStack() as cleanup:
        context = devices.get_context()
        hook(context)
        ranges: list[tuple[int, int]] = []

        def allocate(size: int) -> Any:
            # Nothing else uses this memory, so a launch that escapes the recording does no harm.
            status, pointer = cu.cuMemAlloc(max(1, size))
            check(status, f"{name}: allocating {size} bytes to record with")
            cleanup.callback(cu.cuMemFree, pointer)
            ranges.append((int(pointer), size))
            return pointer

        arrays = [device_array(context, shape, dtype, allocate) for shape, dtype in shapes]
        status, stream = cu.cuStreamCreate(0)
        check(status, f"{name}: creating a stream to record on")
        cleanup.callback(cu.cuStreamDestroy, stream)

        def temporary(context: Any, size: int) -> Any:
            return MemoryPointer(context, allocate(size), size)

        with allocating_with(temporary):
            graph = _capture(name, function, arrays, stream)
        cleanup.callback(cu.cuGraphDestroy, graph)
        launches = tuple(_read_launch(name, node, ranges) for node in _in_order(name, graph))
        return Recording(launches, tuple(size for _, size in ranges[len(shapes) :]))


def device_array(context: Any, shape: tuple[int, ...], dtype: Any, pointer_of: Callable[[int], Any]) -> Any:
    """A Numba device array over memory that it does not own; ``pointer_of`` maps its size in bytes to the address."""
    strides: list[int] = []
    size = dtype.itemsize
    for extent in reversed(shape):
        strides.insert(0, size)
        size *= extent
    memory = MemoryPointer(context, pointer_of(size), size)
    return DeviceNDArray(shape, tuple(strides), dtype, gpu_data=memory)


def _capture(name: str, function: Callable[..., Any], arrays: Sequence[Any], stream: Any) -> Any:
    mode = cu.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED
    check(cu.cuStreamBeginCapture(stream, mode)[0], f"{name}: starting to record")
    failure: Exception | None = None
    try:
        with only_on(int(stream)):
            function(*arrays, cuda.external_stream(int(stream)))
    except Exception as error:
        failure = error
    status, graph = cu.cuStreamEndCapture(stream)
    if failure is not None:
        raise RecordingError(
            f"{name} could not be recorded: {type(failure).__name__}: {failure}. {_ADVICE}"
        ) from failure
    if int(status) != 0:
        raise RecordingError(f"{name} could not be recorded: {status.name}. {_ADVICE}")
    return graph


def _in_order(name: str, graph: Any) -> Iterator[Any]:
    """The nodes of a graph that is one chain."""
    status, _, count = cu.cuGraphGetNodes(graph, 0)
    check(status, f"{name}: reading the recording")
    status, nodes, count = cu.cuGraphGetNodes(graph, count)
    check(status, f"{name}: reading the recording")
    if count == 0:
        return
    follower: dict[int, Any] = {}
    roots = []
    for node in nodes[:count]:
        before = _dependencies(name, node)
        if len(before) > 1 or (before and int(before[0]) in follower):
            raise RecordingError(f"{name} used several streams, and a recording has one. {_ADVICE}")
        if before:
            follower[int(before[0])] = node
        else:
            roots.append(node)
    if len(roots) != 1:
        raise RecordingError(f"{name} used several streams, and a recording has one. {_ADVICE}")
    node = roots[0]
    while node is not None:
        yield node
        node = follower.get(int(node))


def _dependencies(name: str, node: Any) -> list[Any]:
    answer = cu.cuGraphNodeGetDependencies(node, 0)
    check(answer[0], f"{name}: reading the recording")
    count = answer[-1]
    if not count:
        return []
    answer = cu.cuGraphNodeGetDependencies(node, count)
    check(answer[0], f"{name}: reading the recording")
    return list(answer[1][:count])


def _read_launch(name: str, node: Any, ranges: Sequence[tuple[int, int]]) -> Launch:
    status, kind = cu.cuGraphNodeGetType(node)
    check(status, f"{name}: reading the recording")
    if kind != cu.CUgraphNodeType.CU_GRAPH_NODE_TYPE_KERNEL:
        raise RecordingError(f"{name} did something else than launching kernels ({kind.name}). {_ADVICE}")
    status, node_params = cu.cuGraphKernelNodeGetParams(node)
    check(status, f"{name}: reading the recording")
    function = int(node_params.func) or driver.load_function(int(node_params.kern))
    blob, parameters, patches = _read_parameters(function, int(node_params.kernelParams), ranges)
    return Launch(
        name=f"a kernel of {name}",
        handles=(function,),
        grid=(node_params.gridDimX, node_params.gridDimY, node_params.gridDimZ),
        block=(node_params.blockDimX, node_params.blockDimY, node_params.blockDimZ),
        shared_bytes=node_params.sharedMemBytes,
        blob=tuple(blob),
        parameters=tuple(parameters),
        patches=tuple(patches),
    )


def _read_parameters(
    function: int, addresses: int, ranges: Sequence[tuple[int, int]]
) -> tuple[list[int], list[int], list[Patch]]:
    """The parameters of a launch as words, their byte offsets, and the words that are addresses in ``ranges``."""
    blob: list[int] = []
    parameters: list[int] = []
    patches: list[Patch] = []
    for index, size in enumerate(driver.parameter_sizes(function)):
        parameters.append(WORD_BYTES * len(blob))
        address = ctypes.c_void_p.from_address(addresses + ctypes.sizeof(ctypes.c_void_p) * index).value or 0
        data = ctypes.string_at(address, size).ljust(-(-size // WORD_BYTES) * WORD_BYTES, b"\0")
        for at in range(0, len(data), WORD_BYTES):
            word = int.from_bytes(data[at : at + WORD_BYTES], "little")
            patch = _patch_for(word, len(blob), ranges) if at + WORD_BYTES <= size else None
            if patch is not None:
                patches.append(patch)
            blob.append(word if patch is None else 0)
    return blob, parameters, patches


def _patch_for(word: int, index: int, ranges: Sequence[tuple[int, int]]) -> Patch | None:
    for buffer, (start, size) in enumerate(ranges):
        if start <= word < start + max(1, size):
            return Patch(index, buffer, word - start)
    return None
