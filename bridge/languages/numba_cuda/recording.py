"""Records the launches of a Python function once, so that native code can replay them. Imports numba-cuda.

The function runs with arrays at addresses where no memory is. Each launch through Numba-CUDA is noted instead of made,
and nothing else may be asked of the driver. Words of the parameters that are addresses in the function's arrays or
temporaries are replaced at each call. All others are constant. This is right for functions whose launches depend only
on the shapes of their arguments.
"""

from __future__ import annotations

import contextlib
import functools
import numbers
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from cuda.bindings import driver as cu
from numba import cuda
from numba.cuda.cudadrv import devices
from numba.cuda.cudadrv.driver import MemoryPointer

from bridge.compat.cpython import C_NUMBER
from bridge.compat.numba_cuda import arguments_of, working
from bridge.cuda.carried_cubins import launch_of_words
from bridge.cuda.launch_shape import LaunchShape
from bridge.errors import RecordingError
from bridge.ffi.cuda.devices import load_everywhere
from bridge.ffi.native.abi import WORD_BYTES
from bridge.ffi.plans.device import Launch, Patch
from bridge.languages.numba_cuda.cuda_compilation import code_of, load_kernel, name_of, waits_for_launch
from bridge.languages.numba_cuda.device_memory import check, device_array

_ADVICE = (
    "With replay=True the function may only launch Numba-CUDA kernels on the stream it is given and make arrays with "
    "cuda.device_array; it must not synchronise, copy, or read data. Pass replay=False to run it at each call."
)

_FIRST_ADDRESS, _ALIGNMENT = 0x5A << 56, 256
"""No memory has such an address: CUDA's have 57 bits. So a launch that escapes fails, and changes nothing."""

_HARMLESS = (
    "cuCtxGet", "cuCtxPop", "cuCtxPush", "cuCtxSetCurrent", "cuDevice", "cuDriverGet", "cuEventDestroy",
    "cuFunc", "cuGetError", "cuInit", "cuIpcClose", "cuKernel", "cuLibrary", "cuLink", "cuMemFree", "cuMemGet",
    "cuMemHostUnregister", "cuModule", "cuOccupancy", "cuPointerGet", "cuStreamDestroy", "cuStreamGet",
)  # fmt: skip
"""What the names of driver functions begin with that neither queue work nor wait for any.

The garbage collector may free memory at any time, so this is allowed too.
"""


@dataclass(frozen=True)
class Recording:
    """The launches and temporaries of one function.

    Attributes:
        launches: The launches, in order. Buffers are numbered: the arrays given to the function, then its temporaries.
        temporaries: Bytes of each temporary.
        code: The code of the kernels, the same in every process; None if the recording refers to this process.
        alive: The kernels as Numba has compiled them, and what they were launched with.
    """

    launches: tuple[Launch, ...]
    temporaries: tuple[int, ...]
    code: tuple[str, ...] | None
    alive: Any

    @property
    def content(self) -> str | None:
        """Everything that a replay does, as text; None if it refers to memory or functions of this process."""
        plain = [replace(launch, handles=()) for launch in self.launches]
        return None if self.code is None else repr((self.code, plain, self.temporaries))


def record(
    name: str,
    function: Callable[..., Any],
    shapes: Sequence[tuple[tuple[int, ...], Any]],
    ordinal: int,
    may_launch_nothing: bool = False,
) -> Recording:
    """Records a function, and loads its kernels on all of JAX's devices.

    Args:
        name: The function, for errors.
        function: Called as ``function(array, ..., stream)``.
        shapes: Shape and dtype of each array.
        ordinal: The device that is current while it runs. Other devices make the same launches.
        may_launch_nothing: Whether all outputs are empty, so that a function without launches is right.

    Raises:
        RecordingError: The function raised, or did something that cannot be replayed.
        LaunchError: A launch is over a limit of a device.
    """
    with cuda.gpus[ordinal], _capturing(name) as stream:
        recorder = Recorder(name, stream)
        context = devices.get_context()
        arrays = [device_array(context, *of, recorder.reserve) for of in shapes]
        try:
            with working(recorder):
                function(*arrays, cuda.external_stream(stream))
        except MemoryError:
            raise
        except Exception as error:
            what = recorder.refused or f"{type(error).__name__}: {error}"
            raise RecordingError(f"{name} could not be recorded: {what}. {_ADVICE}") from error
    if recorder.refused is not None:  # the function caught the error
        raise RecordingError(f"{name} could not be recorded: {recorder.refused}. {_ADVICE}")
    if not recorder.launches and not may_launch_nothing:
        raise RecordingError(f"{name} launched nothing on the stream it was given. {_ADVICE}")
    return recorder.recording(len(shapes), ordinal)


class Recorder:
    """Notes what a function does: a :class:`~bridge.compat.numba_cuda.Work`.

    Args:
        name: The function, for errors.
        stream: The stream that it is given.

    Attributes:
        launches: Each launch without handles, with its kernel and its arguments.
        refused: What cannot be recorded; None if there was no such thing.
    """

    def __init__(self, name: str, stream: int):
        self.launches: list[tuple[Launch, Any, Any]] = []
        self.refused: str | None = None
        self._name = name
        self._stream = stream
        self._ranges: list[tuple[int, int]] = []
        self._next = _FIRST_ADDRESS
        self._is_portable = True

    def reserve(self, size: int) -> int:
        """An address for a new buffer of this size."""
        start = self._next
        self._ranges.append((start, size))
        self._next += (size // _ALIGNMENT + 2) * _ALIGNMENT
        return start

    def allocate(self, context: Any, size: int) -> Any:
        """Returns memory that exists only in the recording, for a temporary of ``size`` bytes."""
        return MemoryPointer(context, cu.CUdeviceptr(self.reserve(size)), size)

    def call_driver(self, function: str) -> None:
        """Refuses a function of CUDA's driver that cannot be replayed."""
        if not function.startswith(_HARMLESS):
            self._refuse(f"Numba-CUDA called {function}, which is no launch")

    def launch(self, kernel: Any, arguments: Any, grid: Any, block: Any, stream: Any, shared_bytes: int) -> None:
        """Notes a launch.

        Raises:
            RecordingError: It cannot be replayed.
        """
        if int(getattr(stream, "handle", stream) or 0) != self._stream:
            self._refuse(f"{name_of(kernel)} was launched on another stream")
        if kernel.debug:
            self._refuse(f"{name_of(kernel)} is compiled with debug=True, so each launch waits for its exception")
        if any(isinstance(getattr(each, "value", each), np.ndarray) for each in arguments):
            self._refuse(f"{name_of(kernel)} was given an array of the host")
        values = arguments_of(kernel, arguments, stream)
        words = [_word(value) for value in values]
        places = [self._place(word) for word in words]
        self._is_portable &= all(map(self._belongs_here, arguments))
        launch = launch_of_words(
            f"a kernel of {self._name}",
            LaunchShape(grid, block, shared_bytes),
            [word if place is None else 0 for word, place in zip(words, places, strict=True)],
            [Patch(index, *place) for index, place in enumerate(places) if place is not None],
            cooperative=kernel.cooperative,
            sizes=tuple(map(_size, values)),
            compiler="numba-cuda",
        )
        self.launches.append((launch, kernel, arguments))

    def recording(self, array_count: int, ordinal: int) -> Recording:
        """The recording, its kernels loaded. The first ``array_count`` buffers are the function's arrays."""
        loaded = []
        for launch, kernel, _ in self.launches:
            shape = LaunchShape(launch.grid, launch.block, launch.shared_bytes)
            handles = load_everywhere(functools.partial(load_kernel, name_of(kernel), kernel, shape))
            loaded.append(replace(launch, handles=handles, overlaps=waits_for_launch(kernel, ordinal)))
        codes = [code_of(kernel) for _, kernel, _ in self.launches]
        known = tuple(code for code in codes if code is not None)
        is_portable = self._is_portable and len(known) == len(codes)
        temporaries = tuple(size for _, size in self._ranges[array_count:])
        return Recording(tuple(loaded), temporaries, known if is_portable else None, tuple(self.launches))

    def _refuse(self, what: str) -> None:
        """Notes what cannot be recorded. The function may catch the error; the recording is refused all the same."""
        self.refused = self.refused or what
        raise RecordingError(what)

    def _place(self, word: int) -> tuple[int, int] | None:
        """The buffer that a word is an address in, and the offset; None if it is no such address."""
        if word < _FIRST_ADDRESS:
            return None
        return next(
            ((index, word - start) for index, (start, size) in enumerate(self._ranges) if 0 <= word - start <= size),
            None,
        )

    def _belongs_here(self, argument: Any) -> bool:
        """Whether an argument is a number, or an array of the function. Other memory belongs to this process."""
        if isinstance(argument, numbers.Number | np.generic):
            return True
        address = getattr(argument, "device_ctypes_pointer", None)
        return address is not None and (not argument.size or self._place(address.value or 0) is not None)


def _word(value: Any) -> int:
    """A parameter of a kernel, as Numba prepares it, in one word."""
    if isinstance(value, C_NUMBER):
        return int.from_bytes(bytes(value), "little")
    return int(value) % 2**64


def _size(value: Any) -> int:
    """Bytes of a parameter. Numba leaves truth values and what fills a word as they are."""
    if isinstance(value, C_NUMBER):
        return len(bytes(value))
    return 1 if isinstance(value, bool | np.bool_) else WORD_BYTES


@contextlib.contextmanager
def _capturing(name: str) -> Iterator[int]:
    """A stream on which work of other libraries is captured, so that it neither runs nor goes unnoticed.

    Other threads go on as they are. In the relaxed mode CUDA forbids them nothing, and a non-blocking stream does not
    wait for the default stream, which they may use.
    """
    status, stream = cu.cuStreamCreate(cu.CUstream_flags.CU_STREAM_NON_BLOCKING.value)
    check(status, f"{name}: creating a stream to record on")
    try:
        mode = cu.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED
        check(cu.cuStreamBeginCapture(stream, mode)[0], f"{name}: starting to record")
        try:
            yield int(stream)
        finally:
            status, graph = cu.cuStreamEndCapture(stream)
        if int(status) != 0:
            raise RecordingError(f"{name} could not be recorded: {status.name}. {_ADVICE}")
        count = cu.cuGraphGetNodes(graph, 0)[-1]
        cu.cuGraphDestroy(graph)
        if count:
            raise RecordingError(f"{name} did work on the stream that is no launch through Numba-CUDA. {_ADVICE}")
    finally:
        cu.cuStreamDestroy(stream)
