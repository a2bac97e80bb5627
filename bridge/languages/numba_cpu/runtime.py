"""Makes the native functions that the calls of all Numba kernels share."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numba
from llvmlite import binding, ir
from numba.core import cgutils
from numba.core.callconv import excinfo_ptr_t
from numba.core.registry import cpu_target
from numba.core.types import int64

from bridge.ffi.native.handler import create_error
from bridge.ffi.native.object_code import LoadedObject
from bridge.ffi.native.prepared import prepared
from bridge.languages.numba_cpu.calling_convention import GIL_RELEASE, PARALLEL_FOR, THREAD_NUMBER
from bridge.languages.numba_cpu.failures import CODE, I32, I64, POINTER, STORAGE, TEXT, emit_occurred, emit_take, word
from bridge.languages.numba_cpu.loading import LOADER
from bridge.languages.numba_cpu.parallel import emit_parallel_for, emit_thread_number

REPLACED = {
    PARALLEL_FOR: "bridge_parallel_for",
    THREAD_NUMBER: "bridge_thread_number",
    GIL_RELEASE: "bridge_gil_release",
}
"""The functions of Numba's runtime that kernels call, and what the bridge links in their places."""

FAIL = "bridge_fail"
"""Makes the error of a call that has failed: ``int64_t f(frame, status code, exception info, record)``."""

FAIL_TYPE = ir.FunctionType(I64, [I64, I32, POINTER, POINTER])


def address(name: str) -> int:
    """Address of a shared function, which is compiled when it is first needed."""
    return _compiled(name, _EMITTERS[name])


@functools.cache
def _compiled(name: str, emit: Callable[[ir.Module, str], None]) -> int:
    context = cpu_target.target_context
    module = context.create_module(name)
    emit(module, name)
    parsed = binding.parse_assembly(str(module), binding.create_context())
    parsed.verify()
    LOADER.load(parsed, context.codegen()._tm, {})
    return LOADER.function(name)


def _emit_gil_release(module: ir.Module, name: str) -> None:
    """Adds a function that reports the Python exception of a thread, and then does what ``numba_gil_release`` does.

    Numba's code leaves such an exception on the thread, or loses it with the thread's Python state.
    """
    prototype = ir.FunctionType(ir.VoidType(), [POINTER])
    function = ir.Function(module, prototype, name)
    builder = ir.IRBuilder(function.append_basic_block())
    with cgutils.if_unlikely(builder, emit_occurred(builder)):
        emit_take(builder, STORAGE.emit_get(builder))
    builder.call(ir.Function(module, prototype, GIL_RELEASE), function.args)
    builder.ret_void()


def _emit_fail(module: ir.Module, name: str) -> None:
    function = ir.Function(module, FAIL_TYPE, name)
    frame, code, exception_info, record = function.args
    builder = ir.IRBuilder(function.append_basic_block())
    context = cpu_target.target_context
    info = builder.bitcast(exception_info, excinfo_ptr_t)
    status = context.call_conv._get_return_status(builder, code, info)
    with cgutils.if_likely(builder, status.is_error):
        api = context.get_python_api(builder)
        gil = api.gil_ensure()
        context.call_conv.raise_error(builder, api, status)
        emit_take(builder, record)
        api.gil_release(gil)
    text = builder.ptrtoint(word(builder, record, TEXT), I64)
    error_code = builder.load(word(builder, record, CODE))
    make = builder.inttoptr(I64(_error_function().address), ir.FunctionType(I64, [I64, I64, I64]).as_pointer())
    builder.ret(builder.call(make, [frame, error_code, text]))


@functools.cache
def _error_function() -> LoadedObject:
    return prepared(_compile_error_function, "bridge_error")


def _compile_error_function() -> Any:
    @numba.cfunc(int64(int64, int64, int64), error_model="numpy")
    def failed(frame, error_code, message):  # type: ignore[no-untyped-def]
        return create_error(frame, error_code, message)

    return failed


_EMITTERS: dict[str, Callable[[ir.Module, str], None]] = {
    REPLACED[PARALLEL_FOR]: emit_parallel_for,
    REPLACED[THREAD_NUMBER]: emit_thread_number,
    REPLACED[GIL_RELEASE]: _emit_gil_release,
    FAIL: _emit_fail,
}
