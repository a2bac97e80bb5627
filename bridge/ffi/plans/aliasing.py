"""Copies an aliased input into its output on CUDA, if XLA has given them different memory.

An alias says that an output shares the buffer of an input. XLA normally ensures that, and copies the input first where
its value is still needed. Dynamic-slice fusion (seen with jaxlib 0.11) breaks the promise: in a loop that slices its
inputs from stacked arrays, the call gets two different slices, and nothing is copied.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from bridge.ffi.native.abi import ARRAY, BUFFER, FRAME
from bridge.ffi.native.addresses import c_string
from bridge.ffi.native.call_frame import array_attribute, stream_and_device
from bridge.ffi.native.handler import native
from bridge.ffi.native.words import call4, load, load_int32, stack_words
from bridge.ffi.plans.device import driver_error

_INPUT, _OUTPUT, _ITEM_BYTES, _PAIR = 0, 1, 2, 3
_INT32_BYTES = 4


def pairs(aliases: Sequence[tuple[int, int]], outputs: Sequence[Any]) -> np.ndarray[Any, np.dtype[np.int32]]:
    """The attribute of a call with aliases: for each alias the input, the output, and the bytes of an element.

    Args:
        aliases: Pairs of input and output index.
        outputs: Shape and dtype of each output.
    """
    return np.array([word for i, o in aliases for word in (i, o, np.dtype(outputs[o].dtype).itemsize)], np.int32)


def copy_before(execute: Callable[..., Any], copy: int, describe: int, on_stream: bool = True) -> Any:
    """Native ``(frame, plan) -> error`` that copies each input whose output lies elsewhere, then executes.

    Args:
        execute: Native ``(frame, plan) -> error``.
        copy: Address of ``cuMemcpyDtoDAsync``, or of a function like it.
        describe: Address of a :data:`bridge.ffi.plans.device.DESCRIBE`.
        on_stream: Ask XLA for the stream; if not, it is 0.
    """
    copy_address, describe_address = np.int64(copy), np.int64(describe)
    name = np.int64(c_string("the copy of an aliased input"))

    @native
    def run(frame, plan):
        array = array_attribute(frame, ARRAY.INT32)
        words = load(array, ARRAY.SIZE) if array != 0 else np.int64(0)
        for first in range(0, words, _PAIR):
            pair = load(array, ARRAY.DATA) + _INT32_BYTES * first
            source = load(load(load(frame, FRAME.ARGS), load_int32(pair, _INT32_BYTES * _INPUT)), BUFFER.DATA)
            output = load(load(frame, FRAME.RETS), load_int32(pair, _INT32_BYTES * _OUTPUT))
            target = load(output, BUFFER.DATA)
            size = load_int32(pair, _INT32_BYTES * _ITEM_BYTES)
            for axis in range(load(output, BUFFER.RANK)):
                size *= load(load(output, BUFFER.DIMS), axis)
            if source != target and size != 0:
                where = stack_words(2)
                error = stream_and_device(frame, where, on_stream)
                if error != 0:
                    return error
                status = call4(copy_address, target, source, size, load(where, 0)) & 0xFFFFFFFF  # it has 32 bits
                if status != 0:
                    return driver_error(frame, status, describe_address, name)
        return execute(frame, plan)

    return run
