"""Makes the host plan of a compiled Numba CPU function: turns buffers into arrays, and exceptions into XLA errors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numba
import numpy as np
from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic
from numba.np import arrayobj

from bridge.ffi.native.abi import BUFFER, ERROR
from bridge.ffi.native.exception_text import describe_to_c_string
from bridge.ffi.native.handler import create_error
from bridge.ffi.plans.host import HostPlan
from bridge.languages.numba_cpu.parallel import Failures, entry_mutex
from bridge.languages.numba_cpu.raised import emit_report
from bridge.signature.array_types import Signature

_I64 = ir.IntType(64)


_FUNCTION = types.int64(*[types.int64] * 5)


def host_plan(
    compiled: Any, arrays: Sequence[types.Array], signature: Signature, name: str, failures: Failures | None
) -> tuple[HostPlan, Any]:
    """Makes a compiled kernel callable by the ``bridge_cpu`` target.

    Args:
        compiled: Numba's ``CompileResult`` of the kernel for exactly ``arrays``.
        arrays: C-contiguous Numba array types, inputs then outputs.
        signature: The same types.
        name: The kernel, for error messages.
        failures: Takes the exceptions of the kernel's parallel loops, if it has any.

    Returns:
        The plan, and the compiled C function that it calls.
    """
    function = _compile_function(compiled, arrays, name)
    plan = HostPlan(
        name=name,
        function=function.address,
        inputs=signature.input_sizes,
        outputs=signature.output_sizes,
        mutex=entry_mutex() if failures else None,
        failures=(failures.count_address, failures.text_address) if failures else None,
    )
    return plan, function


def _item_bytes(dtype: types.Type) -> int:
    return 1 if dtype == types.boolean else dtype.bitwidth // 8


def _compile_function(compiled: Any, arrays: Sequence[types.Array], name: str) -> Any:
    """The C function of a :class:`~bridge.ffi.plans.host.HostPlan`: runs the kernel once."""

    @intrinsic
    def run(typingctx, buffers, data, batch_rank):
        """Runs the kernel. Returns 0, or the address of a C string that describes the exception it raised."""

        def codegen(context, builder, signature, args):
            buffers, data, batch_rank = args
            words = _Words(builder)
            kernel_args = [
                _array(context, builder, words, array, words.at(buffers, index), words.at(data, index), batch_rank)
                for index, array in enumerate(arrays)
            ]
            function = context.declare_function(builder.module, compiled.fndesc)
            context.active_code_library.add_linking_library(compiled.library)
            status, _ = context.call_conv.call_function(
                builder, function, compiled.signature.return_type, compiled.signature.args, kernel_args
            )
            message = cgutils.alloca_once_value(builder, _I64(0))
            with cgutils.if_unlikely(builder, status.is_error):
                api = context.get_python_api(builder)
                gil = api.gil_ensure()
                context.call_conv.raise_error(builder, api, status)
                builder.store(emit_report(context, builder, api, describe_to_c_string, name), message)
                api.gil_release(gil)
            return builder.load(message)

        return types.int64(types.int64, types.int64, types.int64), codegen

    @numba.cfunc(_FUNCTION, forceinline=True)
    def function(frame, buffers, data, batch_rank, context):
        message = run(buffers, data, batch_rank)
        if message != 0:
            return create_error(frame, np.int64(ERROR.INTERNAL), message)
        return 0

    return function


class _Words:
    """Emits loads of 8-byte words."""

    def __init__(self, builder: ir.IRBuilder):
        self._builder = builder

    def at(self, address: Any, index: Any) -> Any:
        base = self._builder.inttoptr(address, _I64.as_pointer())
        return self._builder.load(self._builder.gep(base, [_I64(index) if isinstance(index, int) else index]))


def _array(context, builder, words, array, buffer, data, batch_rank):
    """A Numba array over the memory at ``data``, with the dimensions of ``buffer`` without its batch dimensions."""
    dims = words.at(buffer, BUFFER.DIMS)
    shape = [words.at(dims, builder.add(batch_rank, _I64(axis))) for axis in range(array.ndim)]
    item_bytes = _I64(_item_bytes(array.dtype))
    strides = [item_bytes]
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
