"""Calls a Python function with device arrays over XLA's buffers, for callback plans. Imports numba-cuda."""

from __future__ import annotations

import ctypes
import functools
import itertools
import weakref
from collections.abc import Callable, Sequence
from typing import Any

from cuda.bindings import driver as cu
from numba import cuda
from numba.cuda.cudadrv import devices

from bridge.ffi.native.addresses import c_function
from bridge.ffi.native.exception_text import describe_to_c_string, error_code
from bridge.ffi.plans import callback
from bridge.ffi.plans.callback import CallbackPlan
from bridge.languages.numba_cuda.device_memory import StreamMemory, allocating_with, hook
from bridge.languages.numba_cuda.launcher import set_device
from bridge.languages.numba_cuda.recording import device_array
from bridge.signature.array_types import Signature

_ARRAYS_KEPT = 4096


class Caller:
    """Calls one function with arrays of fixed shapes.

    Args:
        name: The function, for errors.
        function: Called as ``function(array, ..., stream)``.
        shapes: Shape and dtype of each array.
    """

    _identities = itertools.count(1)

    def __init__(self, name: str, function: Callable[..., None], shapes: Sequence[tuple[tuple[int, ...], Any]]):
        self.name = name
        self.identity = next(self._identities)
        self.shapes = shapes
        self._function = function
        # XLA tends to use the same buffers again, and making an array over one costs microseconds.
        self._arrays: dict[tuple[int, int, int], Any] = {}
        self._streams: dict[tuple[int, int], tuple[Any, Any, StreamMemory]] = {}
        _callers[self.identity] = self

    def plan(self, signature: Signature) -> CallbackPlan:
        """The plan that calls this object, which must live as long as the plan."""
        return CallbackPlan(self.name, c_function(_call), self.identity, signature.input_sizes, signature.output_sizes)

    def __call__(self, stream: int, ordinal: int, addresses: Sequence[int]) -> None:
        if (ordinal, stream) not in self._streams:
            context = devices.gpus[ordinal].get_primary_context()
            hook(context)
            self._streams[ordinal, stream] = context, cuda.external_stream(stream), _memory(stream, ordinal)
        context, numba_stream, memory = self._streams[ordinal, stream]
        # XLA has made the context current. If it is attached, Numba does not ask the driver at each array and launch.
        devices._runtime._set_attached_context(context)
        set_device(ordinal)
        try:
            if len(self._arrays) > _ARRAYS_KEPT:
                self._arrays.clear()
            arrays = [self._array(context, ordinal, index, address) for index, address in enumerate(addresses)]
            with allocating_with(memory):
                self._function(*arrays, numba_stream)
        finally:
            set_device(None)
            devices._runtime._set_attached_context(None)

    def _array(self, context: Any, ordinal: int, index: int, address: int) -> Any:
        array = self._arrays.get((ordinal, index, address))
        if array is None:
            shape, dtype = self.shapes[index]
            array = device_array(context, shape, dtype, lambda _: cu.CUdeviceptr(address))
            self._arrays[ordinal, index, address] = array
        return array


@functools.cache
def _memory(stream: int, ordinal: int) -> StreamMemory:
    return StreamMemory(stream, ordinal)


_callers: weakref.WeakValueDictionary[int, Caller] = weakref.WeakValueDictionary()


@callback.FUNCTION
def _call(identity: int, words_address: int) -> int:
    """Called by native code, on XLA's thread, with the device's context current."""
    caller = _callers[identity]
    words = (ctypes.c_int64 * (3 + len(caller.shapes))).from_address(words_address)
    try:
        stream, ordinal, *addresses = words[:-1]
        caller(stream, ordinal, addresses)
    except Exception as error:
        words[-1] = error_code(error)
        return describe_to_c_string(caller.name, type(error), error, error.__traceback__)
    return 0
