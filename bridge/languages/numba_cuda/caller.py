"""Calls a Python function with device arrays over XLA's buffers, for plans in Python. Imports numba-cuda."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Sequence
from typing import Any

from numba import cuda
from numba.cuda.cudadrv import devices

from bridge.compat.numba_cuda import attached, core_stream, launch_by_numba, working
from bridge.cuda.launch_shape import LaunchShape
from bridge.cuda.machine_code import check_launch
from bridge.ffi.plans.host import HostPlan, python_plan
from bridge.languages.numba_cuda.cuda_compilation import load_function, name_of
from bridge.languages.numba_cuda.device_memory import StreamMemory, device_array


class Caller:
    """Calls one function with arrays of fixed shapes.

    Args:
        name: The function, for errors.
        function: Called as ``function(array, ..., stream)``.
        shapes: Shape and dtype of each array.
    """

    def __init__(self, name: str, function: Callable[..., None], shapes: Sequence[tuple[tuple[int, ...], Any]]):
        self.name = name
        self.shapes = shapes
        self._function = function
        # XLA tends to use the same buffers again, and making an array over one costs microseconds.
        self._array = functools.lru_cache(maxsize=4096)(self._make_array)

    def plan(self) -> HostPlan:
        """The plan that calls this object, with the device's context current."""
        return python_plan(self.name, self, len(self.shapes))

    def __call__(self, stream: int, ordinal: int, addresses: Sequence[int]) -> None:
        """Calls the function; the device's context is current."""
        work = _work(stream, ordinal)
        # XLA has made the context current.
        with attached(work.context), working(work):
            arrays = [self._array(ordinal, index, address) for index, address in enumerate(addresses)]
            self._function(*arrays, work.stream)

    def _make_array(self, ordinal: int, index: int, address: int) -> Any:
        context = devices.gpus[ordinal].get_primary_context()
        return device_array(context, *self.shapes[index], lambda _: address)


class _CallWork:
    """What callables do on one stream: a :class:`~bridge.compat.numba_cuda.Work`."""

    def __init__(self, stream: int, ordinal: int):
        self.context = devices.gpus[ordinal].get_primary_context()
        self.stream = cuda.external_stream(stream)
        self.allocate = StreamMemory(stream, ordinal)
        self._ordinal = ordinal

    def launch(self, kernel: Any, arguments: Any, grid: Any, block: Any, stream: Any, shared_bytes: int) -> None:
        """Launches a kernel as Numba does, after a check of the limits, and raises what it raises on the device."""
        shape = LaunchShape(grid, block, shared_bytes)
        checked: set[Any] = vars(kernel).setdefault("_bridge_checked", set())
        if (self._ordinal, shape) not in checked:
            handle = load_function(kernel, self._ordinal)
            check_launch(name_of(kernel), handle, shape, kernel.cooperative, self._ordinal)
            checked.add((self._ordinal, shape))
        if not kernel.debug:
            launch_by_numba(kernel, arguments, grid, block, stream, shared_bytes)
            return
        # Earlier work may wait for other devices, so nothing is locked while it runs.
        cuda.external_stream(int(stream.handle)).synchronize()
        with _raising:
            launch_by_numba(kernel, arguments, grid, block, core_stream(0), shared_bytes)

    def call_driver(self, function: str) -> None:
        """Everything is allowed."""


_raising = threading.RLock()
"""Held while a kernel with ``debug=True`` runs: its launches share the variable that tells the exception."""

_work = functools.cache(_CallWork)
