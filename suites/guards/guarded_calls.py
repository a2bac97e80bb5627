"""Puts the arrays of each kernel call between guard pages.

XLA allocates arrays itself. So each call of the bridge's target goes through a function of this module. It copies the
inputs to guarded regions, fills the regions of the outputs with a byte, runs the kernel on the regions, and copies its
results to XLA's memory. Memory that the kernel allocates meanwhile is filled too. This works for every kernel language
of the CPU, for several calls in one program, for batches and for adjoints. Of a batch, only the two ends are guarded.
"""

from __future__ import annotations

import contextlib
import ctypes
import math
import re
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from bridge.ffi.native.abi import FRAME, header
from bridge.ffi.native.addresses import c_function, words_at
from bridge.ffi.plans import poison
from bridge.ffi.target import CPU
from suites.guards import page_faults
from suites.guards.filled_heap import FILLS, filled_heap
from suites.guards.page_faults import GuardedRegion


@dataclass(frozen=True)
class Trespass:
    """An access of a kernel outside of an array, or to an input that it may only read.

    Attributes:
        kind: ``reads``, ``writes``, or ``accesses`` where the machine does not tell which.
        array: The array, as the call sees it: ``input 0``, or ``output 1``.
        element: Index of the element; negative before the array, at least ``elements`` after it.
        elements: How many elements the array has, in all batch dimensions.
    """

    kind: str
    array: str
    element: int
    elements: int

    @property
    def is_inside(self) -> bool:
        """Whether the element is one of the array."""
        return 0 <= self.element < self.elements

    def __str__(self) -> str:
        """Returns a text that continues "the kernel"."""
        what = f"{self.kind} element {self.element} of {self.array}"
        if self.is_inside:
            return f"{what}, which it may only read"
        where = "before its beginning" if self.element < 0 else "past its end"
        return f"{what}, {where} (it has {self.elements} element{'' if self.elements == 1 else 's'})"


@contextlib.contextmanager
def guarded_calls(run: int) -> Iterator[Guards]:
    """Guards all calls of kernels on the CPU inside the ``with`` block. The block must wait for its programs.

    Args:
        run: 0 or 1: two runs are needed. In run 0 each array ends where a guard page begins, in run
            1 it begins where one ends. Each run fills the heap and all outputs of kernels with another byte.

    Raises:
        MemoryError: The operating system gives no memory for a region.
    """
    global _session
    with _one_at_a_time, page_faults.noting(), CPU.replaced_by(c_function(_ROUTE)) as handler:
        session = _session = Guards(handler, run)
        yield session
    if session.error is not None:
        raise session.error


class Guards:
    """The guards of a ``with`` block.

    Attributes:
        calls: Guarded calls of kernels.
        findings: The forbidden accesses, in the order of calls.
        error: Why a call was not guarded; None if all were.
    """

    def __init__(self, handler: int, run: int):
        self.calls = 0
        self.findings: list[Trespass] = []
        self.error: Exception | None = None
        self._handler = _HANDLER(handler)
        self._at_end, self._byte, self._heap_byte = run % 2 == 0, poison.PATTERNS[run % 2], FILLS[run % 2]
        self._lock = threading.Lock()

    def call(self, address: int) -> int:
        """Calls the handler with guarded copies of the arrays of a frame."""
        frame = _FRAME.from_address(address)
        if frame.extension_start or frame.stage != FRAME.EXECUTE:
            return int(self._handler(address))
        try:
            arrays = _Arrays(frame, self._at_end, self._byte)
        except Exception as error:
            self.error = error
            return int(self._handler(address))
        with filled_heap(self._heap_byte):
            result = int(self._handler(arrays.frame_address))
        with self._lock:
            self.calls += 1
            self.findings += arrays.close()
        return result


@dataclass(frozen=True)
class _Array:
    name: str
    region: GuardedRegion
    item_bytes: int
    address: int
    is_written: bool

    def findings(self) -> list[Trespass]:
        """Returns the accesses in elements of the array, the nearest first, which says most about the fault."""
        item_bytes, size = max(1, self.item_bytes), self.region.size
        accesses = sorted(self.region.accesses(), key=lambda each: max(-each[1], each[1] - size + 1, 0))
        return [Trespass(kind, self.name, offset // item_bytes, size // item_bytes) for kind, offset in accesses]


class _Arrays:
    """Guarded copies of the arrays of a call frame, and a frame that refers to them."""

    def __init__(self, frame: Any, at_end: bool, byte: int):
        self._kept: list[Any] = []
        self._arrays: dict[Any, _Array] = {}
        self._frame = _FRAME.from_buffer_copy(frame)
        try:
            self._place_all(frame, at_end, byte)
        except Exception:
            self.release()
            raise
        self.frame_address = ctypes.addressof(self._frame)

    def _place_all(self, frame: Any, at_end: bool, byte: int) -> None:
        outputs = [_buffer(each) for each in words_at(frame.rets.rets, frame.rets.size)]
        written = {each.data or 0 for each in outputs}
        inputs = [_buffer(each) for each in words_at(frame.args.args, frame.args.size)]
        for index, buffer in enumerate(inputs):
            # An output with the address of an input is the same memory: the kernel changes the input in place.
            address = buffer.data or 0
            region = self._place(f"input {index}", buffer, at_end, is_written=address in written)
            ctypes.memmove(region.address, address, region.size)
        for index, buffer in enumerate(outputs):
            before = len(self._arrays)
            region = self._place(f"output {index}", buffer, at_end, is_written=True)
            if len(self._arrays) > before:
                ctypes.memset(region.address, byte, region.size)
        for each in self._arrays.values():
            if not each.is_written:
                each.region.make_read_only()
        self._frame.args.args = self._pointers(inputs)
        self._frame.rets.rets = self._pointers(outputs)

    def close(self) -> list[Trespass]:
        """Copies the results to XLA's memory, frees the regions, and returns the forbidden accesses."""
        findings = [finding for each in self._arrays.values() for finding in each.findings()]
        for each in self._arrays.values():
            if each.is_written:
                ctypes.memmove(each.address, each.region.address, each.region.size)
        self.release()
        return findings

    def release(self) -> None:
        """Frees the memory."""
        for each in self._arrays.values():
            each.region.release()

    def _place(self, name: str, buffer: Any, at_end: bool, *, is_written: bool) -> GuardedRegion:
        """Sets the region of a buffer, and returns it; two buffers of one size at one address share a region."""
        address = buffer.data or 0
        item_bytes = _ITEM_BYTES[buffer.dtype]
        size = item_bytes * math.prod(words_at(buffer.dims, buffer.rank))
        key = (address, size) if size else name
        if key not in self._arrays:
            region = GuardedRegion(size, at_end=at_end)
            self._arrays[key] = _Array(name, region, item_bytes, address, is_written)
        buffer.data = self._arrays[key].region.address
        return self._arrays[key].region

    def _pointers(self, buffers: list[Any]) -> int:
        pointers = (ctypes.c_void_p * len(buffers))(*map(ctypes.addressof, buffers))
        self._kept += [pointers, *buffers]
        return ctypes.addressof(pointers)


def _buffer(address: int) -> Any:
    """Returns a copy of the description of a buffer; its data is still XLA's."""
    return _BUFFER.from_buffer_copy(_BUFFER.from_address(address))


def _item_bytes(dtype: str) -> int:
    """Returns the bytes of an element of an XLA type, by its name, such as ``F32`` or ``PRED``; 0 without a size."""
    bits = re.search(r"\d+", dtype)
    return max(1, int(bits[0]) // 8) if bits else int(dtype == "PRED")


_FRAME, _BUFFER = header.struct("XLA_FFI_CallFrame"), header.struct("XLA_FFI_Buffer")
_ITEM_BYTES = {
    value: _item_bytes(name.rpartition("XLA_FFI_DataType_")[2])
    for value, name in header.names("XLA_FFI_DataType").items()
}
_HANDLER = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)

_session: Guards | None = None
"""The session that gets the calls. It stays after its block, because a program may still run."""

_one_at_a_time = threading.Lock()


def _route(frame: int) -> int:
    assert _session is not None
    return _session.call(frame)


_ROUTE = _HANDLER(_route)
