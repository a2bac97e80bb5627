"""Records the launches of a Python function once, so that native code can replay them. Imports numba-cuda.

The function runs on a stream in capture mode: CUDA notes each launch with its parameters and executes nothing. Words of
the parameters that are addresses in the function's arrays or temporaries are replaced at each call. All others are
constant. This is right for functions whose launches depend only on the shapes of their arguments.
"""

from __future__ import annotations

import contextlib
import ctypes
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from cuda.bindings import driver as cu
from numba import cuda
from numba.cuda.cudadrv import devices
from numba.cuda.cudadrv.devicearray import DeviceNDArray
from numba.cuda.cudadrv.driver import MemoryPointer

from bridge.errors import PlatformError, RecordingError
from bridge.ffi.cuda import driver
from bridge.ffi.cuda.ordinals import handles_table
from bridge.ffi.native.abi import WORD_BYTES
from bridge.ffi.plans.device import Launch, Patch
from bridge.languages.numba_cuda.cuda_compilation import code_of, waits_for_launch
from bridge.languages.numba_cuda.device_memory import allocating_with, check, hook
from bridge.languages.numba_cuda.watch import Watch, watching

_ADVICE = (
    "With replay=True the function may only launch kernels on the stream it is given and make arrays with "
    "cuda.device_array; it must not synchronise, copy, or read data. Pass replay=False to run it at each call."
)


@dataclass(frozen=True)
class Recording:
    """The launches and temporaries of one function.

    Attributes:
        launches: The launches, in order. Buffers are numbered: the arrays given to the function, then its temporaries.
        temporaries: Bytes of each temporary.
        code: The code of the kernels, the same in every process; None if the recording refers to this process.
        kernels: The kernels as Numba has compiled them. They stay loaded while this refers to them.
    """

    launches: tuple[Launch, ...]
    temporaries: tuple[int, ...]
    code: tuple[str, ...] | None
    kernels: tuple[Any, ...] = field(compare=False, repr=False)

    @property
    def content(self) -> str | None:
        """Everything that a replay does, as text; None if it refers to memory or functions of this process."""
        return None if self.code is None else repr((self.code, _without_handles(self).launches, self.temporaries))


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
    with _lock:
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
    kernels = tuple(kernel for recording in recordings for kernel in recording.kernels)
    return replace(first, launches=tuple(launches), kernels=kernels)


_lock = threading.RLock()
"""Held while one function is recorded: what reads back its memory must not wait for another recording."""


def _without_handles(recording: Recording) -> Recording:
    return replace(recording, launches=tuple(replace(launch, handles=()) for launch in recording.launches))


def _record_on(
    name: str, function: Callable[..., Any], shapes: Sequence[tuple[tuple[int, ...], Any]], ordinal: int
) -> Recording:
    with cuda.gpus[ordinal], contextlib.ExitStack() as cleanup:
        context = devices.get_context()
        hook(context)
        ranges: list[tuple[int, int]] = []
        # The default stream may not be used while another stream is recorded that waits for it.
        status, filler = cu.cuStreamCreate(cu.CUstream_flags.CU_STREAM_NON_BLOCKING.value)
        check(status, f"{name}: creating a stream to fill memory on")
        cleanup.callback(cu.cuStreamDestroy, filler)

        def allocate(size: int) -> Any:
            # Nothing else uses this memory, so a launch that escapes the recording does no harm.
            status, pointer = cu.cuMemAlloc(max(1, size))
            check(status, f"{name}: allocating {size} bytes to record with")
            cleanup.callback(cu.cuMemFree, pointer)
            (status,) = cu.cuMemsetD8Async(pointer, _PATTERN, max(1, size), filler)
            check(status, f"{name}: filling {size} bytes")
            (status,) = cu.cuStreamSynchronize(filler)
            check(status, f"{name}: filling {size} bytes")
            ranges.append((int(pointer), size))
            return pointer

        arrays = [device_array(context, shape, dtype, allocate) for shape, dtype in shapes]
        status, stream = cu.cuStreamCreate(0)
        check(status, f"{name}: creating a stream to record on")
        cleanup.callback(cu.cuStreamDestroy, stream)

        def temporary(context: Any, size: int) -> Any:
            return MemoryPointer(context, allocate(size), size)

        with allocating_with(temporary):
            graph, kernels = _capture(name, function, arrays, stream)
        cleanup.callback(cu.cuGraphDestroy, graph)
        _check_untouched(name, ranges)
        launches = tuple(_read_launch(name, node, ranges) for node in _in_order(name, graph))
        if len(kernels) == len(launches):
            waits = [waits_for_launch(kernel, ordinal) for kernel in kernels]
            launches = tuple(replace(launch, overlaps=waiting) for launch, waiting in zip(launches, waits, strict=True))
        temporaries = tuple(size for _, size in ranges[len(shapes) :])
        return Recording(launches, temporaries, _code(launches, kernels), tuple(kernels))


def _code(launches: Sequence[Launch], kernels: Sequence[Any]) -> tuple[str, ...] | None:
    """The code of the kernels; None if there is a kernel or a parameter that other processes do not have."""
    codes = tuple(map(code_of, kernels))
    if len(codes) != len(launches) or any(_holds_address(launch) for launch in launches):
        return None
    return tuple(code for code in codes if code is not None) if None not in codes else None


def _holds_address(launch: Launch) -> bool:
    """Whether a launch has an address among its parameters that is not replaced at each call."""
    kind = cu.CUpointer_attribute.CU_POINTER_ATTRIBUTE_MEMORY_TYPE
    words = {word % 2**64 for word in launch.blob if word % 2**64 >= _LEAST_ADDRESS}
    return any(int(cu.cuPointerGetAttribute(kind, word)[0]) == 0 for word in words)


_LEAST_ADDRESS = 2**16
_PATTERN = 0xA7
_READ_BYTES = 2**20
_READS = 64


def _check_untouched(name: str, ranges: Sequence[tuple[int, int]]) -> None:
    """Raises RecordingError if the memory was written to, for a recording executes nothing.

    This also finds work of other libraries. Reading waits for all streams that the default stream waits for. Of a large
    array, parts are read.
    """
    for start, size in ranges:
        step = max(_READ_BYTES, size // _READS)
        for offset in range(0, size, step):
            content = (ctypes.c_ubyte * min(_READ_BYTES, size - offset))()
            (status,) = cu.cuMemcpyDtoH(ctypes.addressof(content), start + offset, len(content))
            check(status, f"{name}: reading what it was recorded with")
            if bytes(content) != bytes([_PATTERN]) * len(content):
                raise RecordingError(
                    f"{name} wrote to an array while it was recorded, so it did work on another stream. {_ADVICE}"
                )


def device_array(context: Any, shape: tuple[int, ...], dtype: Any, pointer_of: Callable[[int], Any]) -> Any:
    """A Numba device array over memory that it does not own; ``pointer_of`` maps its size in bytes to the address."""
    strides: list[int] = []
    size = dtype.itemsize
    for extent in reversed(shape):
        strides.insert(0, size)
        size *= extent
    memory = MemoryPointer(context, pointer_of(size), size)
    return DeviceNDArray(shape, tuple(strides), dtype, gpu_data=memory)


def _capture(name: str, function: Callable[..., Any], arrays: Sequence[Any], stream: Any) -> tuple[Any, Sequence[Any]]:
    """The graph of what the function does, and the kernels that it launches through Numba-CUDA."""
    mode = cu.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED
    check(cu.cuStreamBeginCapture(stream, mode)[0], f"{name}: starting to record")
    failure: Exception | None = None
    watch = Watch(int(stream))
    try:
        with watching(int(stream)) as watch:
            function(*arrays, cuda.external_stream(int(stream)))
    except Exception as error:
        failure = error
    status, graph = cu.cuStreamEndCapture(stream)
    if isinstance(failure, MemoryError):
        raise failure
    if failure is not None:
        raise RecordingError(
            f"{name} could not be recorded: {type(failure).__name__}: {failure}. {_ADVICE}"
        ) from failure
    if watch.refused is not None:
        raise RecordingError(f"{name} could not be recorded: {watch.refused}. {_ADVICE}")
    if int(status) != 0:
        raise RecordingError(f"{name} could not be recorded: {status.name}. {_ADVICE}")
    return graph, watch.kernels


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
    cooperative, clusters = (_attribute(name, node, attribute) for attribute in ("COOPERATIVE", "CLUSTER_DIMENSION"))
    if max(clusters.clusterDim.x, clusters.clusterDim.y, clusters.clusterDim.z) > 1:
        raise RecordingError(f"{name} launched clusters of blocks, which a recording cannot hold. {_ADVICE}")
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
        cooperative=bool(cooperative.cooperative),
    )


def _attribute(name: str, node: Any, attribute: str) -> Any:
    number = getattr(cu.CUkernelNodeAttrID, f"CU_LAUNCH_ATTRIBUTE_{attribute}")
    status, value = cu.cuGraphKernelNodeGetAttribute(node, number)
    check(status, f"{name}: reading the recording")
    return value


def _read_parameters(
    function: int, addresses: int, ranges: Sequence[tuple[int, int]]
) -> tuple[list[int], list[int], list[Patch]]:
    """The parameters of a launch as words, their byte offsets, and the words that are addresses in ``ranges``."""
    blob: list[int] = []
    parameters: list[int] = []
    patches: list[Patch] = []
    sizes = driver.parameter_sizes(function)
    if sizes is None:
        raise PlatformError("replay=True needs a driver for CUDA 12.4 or later. Install one, or pass replay=False.")
    for index, size in enumerate(sizes):
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
