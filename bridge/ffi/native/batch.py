"""Finds the elements of a batch in a buffer, so that native code can run ``vmap``.

A buffer has batch dimensions and then the dimensions of its array. All buffers of a call have the same number of batch
dimensions. In outputs each of them has the extent of the batch. In inputs it may also be 1: every element of the batch
then uses the same array.
"""

from __future__ import annotations

from bridge.ffi.native.abi import BUFFER
from bridge.ffi.native.handler import native
from bridge.ffi.native.words import load


@native
def batch_elements(output, batch_rank):
    """Number of elements in the batch, from the leading dimensions of an output buffer; 1 without a batch."""
    elements = 1
    for axis in range(batch_rank):
        elements *= load(load(output, BUFFER.DIMS), axis)
    return elements


@native
def batch_offset(buffer, rank, item_bytes, output, batch_rank, element):
    """Bytes from the start of a buffer to one element of the batch; ``rank`` does not count batch dimensions."""
    dims, extents = load(buffer, BUFFER.DIMS), load(output, BUFFER.DIMS)
    stride = item_bytes
    for axis in range(batch_rank, batch_rank + rank):
        stride *= load(dims, axis)
    offset = 0
    for axis in range(batch_rank - 1, -1, -1):
        extent = load(extents, axis)
        if load(dims, axis) != 1:
            offset += (element % extent) * stride
            stride *= extent
        element //= extent
    return offset
