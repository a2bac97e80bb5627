"""Compiles and records Numba-CUDA kernels on a machine without a GPU, for tests. Imports numba-cuda."""

import contextlib
import itertools
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any
from unittest import mock

from numba import cuda
from numba.cuda import codegen, dispatcher
from numba.cuda.cudadrv import devices
from numba.cuda.cudadrv.driver import Context, Stream

from bridge.languages.numba_cuda import device_memory, recording
from bridge.languages.numba_cuda import numba_cuda_callable as callables

CAPABILITY = (9, 0)


@contextlib.contextmanager
def compiling() -> Iterator[None]:
    """Lets Numba-CUDA compile for a GPU of this capability in the block; nothing can be loaded."""
    device = SimpleNamespace(compute_capability=CAPABILITY)
    with (
        mock.patch.object(dispatcher, "get_current_device", return_value=device),
        mock.patch.object(dispatcher._Kernel, "bind"),
        mock.patch.object(codegen.CUDACodeLibrary, "_ensure_cc", lambda self, cc: cc or CAPABILITY),
    ):
        yield


class FakeDriver:
    """CUDA's driver with numbers for streams, graphs and memory, which notes its calls.

    Attributes:
        calls: Name and arguments of each call.
        nodes: How many nodes a captured graph has.
    """

    CUdeviceptr = CUstream = staticmethod(int)
    CUstream_flags = SimpleNamespace(CU_STREAM_NON_BLOCKING=SimpleNamespace(value=1))
    CUstreamCaptureMode = SimpleNamespace(CU_STREAM_CAPTURE_MODE_RELAXED="relaxed")
    _RESULTS = ("cuStreamCreate", "cuStreamEndCapture", "cuMemAllocFromPoolAsync")

    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []
        self.nodes = 0
        self._numbers = itertools.count(1000)

    def __getattr__(self, name: str) -> Any:
        def call(*args: Any) -> tuple[int, ...]:
            self.calls.append((name, *args))
            if name == "cuGraphGetNodes":
                return 0, self.nodes
            return (0, next(self._numbers)) if name in self._RESULTS else (0,)

        return call

    def of(self, name: str) -> list[tuple[Any, ...]]:
        """The arguments of the calls of one function."""
        return [tuple(args) for each, *args in self.calls if each == name]


class _Gpu:
    """One of ``numba.cuda.gpus``."""

    compute_capability = CAPABILITY

    def __init__(self, context: Context) -> None:
        self.get_primary_context = lambda: context

    def __enter__(self) -> None: ...

    def __exit__(self, *error: object) -> None: ...


@contextlib.contextmanager
def recording_without_gpu() -> Iterator[FakeDriver]:
    """Lets functions be recorded in the block, for one device. Kernels get the handle 7."""
    context, driver = Context.__new__(Context), FakeDriver()
    runtime = SimpleNamespace(
        ensure_context=contextlib.nullcontext,
        get_or_create_context=lambda device=None: context,
        _set_attached_context=lambda context: None,
    )
    with (
        compiling(),
        mock.patch.object(devices, "_runtime", runtime),
        mock.patch.object(devices, "gpus", [_Gpu(context)]),
        mock.patch.object(cuda, "gpus", [_Gpu(context)]),
        mock.patch.object(cuda, "external_stream", lambda handle: Stream(handle, external=True)),
        mock.patch.object(recording, "cu", driver),
        mock.patch.object(device_memory, "cu", driver),
        mock.patch.object(device_memory, "_pools", {0: "pool"}),
        mock.patch.object(recording, "load_everywhere", return_value=(7,)),
        mock.patch.object(callables, "require_cuda"),
        mock.patch.object(callables, "local_ordinals", return_value=[0]),
    ):
        yield driver
