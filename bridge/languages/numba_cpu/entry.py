"""Makes the entry of a compiled Numba kernel: turns buffers into arrays, and a failure into an XLA error."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.np import arrayobj

from bridge.ffi.native.abi import BUFFER
from bridge.languages.numba_cpu.failures import COUNT, I64, POINTER, STORAGE, emit_new_record, word
from bridge.languages.numba_cpu.runtime import FAIL, FAIL_TYPE

_ENTRY = ir.FunctionType(I64, [I64] * 5)


def entry_code(compiled: Any, arrays: Sequence[types.Array], kernel: str, name: str, with_python: bool) -> str:
    """LLVM code of the C function of a :class:`~bridge.ffi.plans.host.HostPlan`, which runs a kernel once.

    Args:
        compiled: Numba's ``CompileResult`` of the kernel for exactly ``arrays``.
        arrays: C-contiguous Numba array types, inputs then outputs.
        kernel: The kernel, for error messages.
        name: Name of the function.
        with_python: Whether exceptions may be raised where the kernel does not see them.
    """
    context = compiled.target_context
    module = context.create_module(name)
    function = ir.Function(module, _ENTRY, name)
    frame, buffers, data, batch_rank, _ = function.args
    builder = ir.IRBuilder(function.append_basic_block())
    words = _Words(builder)
    arguments = [
        _array(context, builder, words, array, words.at(buffers, index), words.at(data, index), batch_rank)
        for index, array in enumerate(arrays)
    ]
    record = emit_new_record(builder, kernel, frame)
    if with_python:
        before = STORAGE.emit_get(builder)
        STORAGE.emit_set(builder, record)
    callee = context.declare_function(module, compiled.fndesc)
    status, _ = context.call_conv.call_function(
        builder, callee, compiled.signature.return_type, compiled.signature.args, arguments
    )
    failed = status.is_error
    if with_python:
        STORAGE.emit_set(builder, before)
        raised = builder.load(word(builder, record, COUNT))
        failed = builder.or_(failed, builder.icmp_signed("!=", raised, I64(0)))
    with cgutils.if_unlikely(builder, failed):
        fail = ir.Function(module, FAIL_TYPE, FAIL)
        info = builder.bitcast(status.excinfoptr, POINTER)
        builder.ret(builder.call(fail, [frame, status.code, info, record]))
    builder.ret(I64(0))
    return str(module)


def _item_bytes(dtype: types.Type) -> int:
    """Size of an item of an array."""
    return 1 if dtype == types.boolean else int(dtype.bitwidth) // 8


class _Words:
    """Emits loads of 8-byte words."""

    def __init__(self, builder: ir.IRBuilder):
        self._builder = builder

    def at(self, address: Any, index: Any) -> Any:
        base = self._builder.inttoptr(address, I64.as_pointer())
        return self._builder.load(self._builder.gep(base, [I64(index) if isinstance(index, int) else index]))


def _array(context, builder, words, array, buffer, data, batch_rank):
    """A Numba array over the memory at ``data``, with the dimensions of ``buffer`` without its batch dimensions."""
    dims = words.at(buffer, BUFFER.DIMS)
    shape = [words.at(dims, builder.add(batch_rank, I64(axis))) for axis in range(array.ndim)]
    size = I64(_item_bytes(array.dtype))
    strides = [size]
    for extent in reversed(shape[1:]):
        strides.insert(0, builder.mul(strides[0], extent))
    value = context.make_array(array)(context, builder)
    arrayobj.populate_array(
        value,
        data=builder.inttoptr(data, context.get_data_type(array.dtype).as_pointer()),
        shape=shape,
        strides=strides[: array.ndim],
        itemsize=context.get_constant(types.intp, _item_bytes(array.dtype)),
        meminfo=None,
    )
    return value._getvalue()
