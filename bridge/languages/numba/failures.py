"""Turns the exceptions of a Numba kernel into the error of the one call that they belong to.

Each call has a *record* in native memory: how many exceptions were raised, and XLA's error for the first. The thread
that runs a part of a call finds its record in thread-specific storage. So it does not matter on which thread an
exception is raised, nor in which function.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable
from typing import Any

from llvmlite import binding, ir
from numba.core import cgutils
from numba.core.compiler_lock import global_compiler_lock
from numba.core.registry import cpu_target

from bridge.compat.numba import status_of
from bridge.ffi.native.addresses import c_function
from bridge.ffi.native.exception_text import create_error, describe, error_code

I64, I32, POINTER = ir.IntType(64), ir.IntType(32), ir.IntType(8).as_pointer()

FAIL = "bridge_fail"
"""Makes the error of a call that has failed: ``int64_t f(frame, status code, exception info, record)``."""

FAIL_TYPE = ir.FunctionType(I64, [I64, I32, POINTER, POINTER])


class _Record(ctypes.Structure):
    _fields_ = (
        ("count", ctypes.c_int64),
        ("name", ctypes.c_char_p),
        ("error", ctypes.c_int64),
        ("frame", ctypes.c_int64),
    )


RECORD_WORDS = ctypes.sizeof(_Record) // 8
"""Size of the record of a call."""

COUNT, NAME, ERROR, FRAME = range(RECORD_WORDS)
"""Words of a record: number of exceptions, address of the kernel's name, of XLA's error, and of XLA's call frame."""


@ctypes.CFUNCTYPE(None, *[ctypes.c_int64] * 4)
def _report(address: int, kind: int, value: int, trace: int) -> None:
    """Called by native code with a record and an exception as three addresses, of which the last two may be 0."""
    record = _Record.from_address(address)
    record.count += 1
    if record.count > 1:
        return  # others follow from the first, or are like it
    name, addresses = record.name.decode(), (kind, value, trace)
    exception: list[Any] = [ctypes.cast(each, ctypes.py_object).value if each else None for each in addresses]
    if not kind:
        text = f"{name} raised an exception"
    else:
        try:
            text = describe(name, *exception)
        except Exception as error:  # the exception's own code
            text = f"{name} raised {exception[0].__name__}, which cannot be described ({type(error).__name__})"
    record.error = create_error(record.frame, text, error_code(exception[0] or Exception))


class Storage:
    """Thread-specific storage for a pointer, such as the record of a call.

    Args:
        name: Its name in LLVM code, which holds no address and so can go to another process.
    """

    def __init__(self, name: str) -> None:
        python = ctypes.pythonapi
        allocate = python.PyThread_tss_alloc
        allocate.restype = ctypes.c_void_p
        self._name, self.key = name, int(allocate())
        python.PyThread_tss_create.argtypes = (ctypes.c_void_p,)
        if python.PyThread_tss_create(self.key) != 0:
            raise MemoryError("no thread-specific storage is left")
        binding.add_symbol(name, self.key)
        for function in (python.PyThread_tss_get, python.PyThread_tss_set):
            binding.add_symbol(function.__name__, c_function(function))

    def emit_get(self, builder: ir.IRBuilder) -> ir.Value:
        """Emits code that returns what this thread has stored, or 0."""
        return builder.call(self._function(builder, "PyThread_tss_get", POINTER), [self._key(builder)])

    def emit_set(self, builder: ir.IRBuilder, value: ir.Value) -> None:
        """Emits code that stores a pointer for this thread."""
        builder.call(self._function(builder, "PyThread_tss_set", I32, POINTER), [self._key(builder), value])

    def _key(self, builder: ir.IRBuilder) -> ir.Value:
        known = builder.module.globals.get(self._name)
        return known or ir.GlobalVariable(builder.module, POINTER.pointee, self._name)

    def _function(self, builder: ir.IRBuilder, name: str, result: ir.Type, *arguments: ir.Type) -> ir.Value:
        return cgutils.get_or_insert_function(builder.module, ir.FunctionType(result, [POINTER, *arguments]), name)


def _c_function(builder: ir.IRBuilder, function: Any, result: ir.Type, *arguments: ir.Type) -> ir.Value:
    prototype = ir.FunctionType(result, arguments)
    return builder.inttoptr(I64(c_function(function)), prototype.as_pointer())


RECORD = Storage("bridge_record")
"""Holds the record of the call that a thread runs a part of."""


def emit_new_record(builder: ir.IRBuilder, name: str, frame: ir.Value) -> ir.Value:
    """Emits a record on the stack, of a kernel's name and a call frame."""
    record = builder.alloca(I64, RECORD_WORDS)
    builder.store(I64(0), word(builder, record, COUNT))
    builder.store(frame, word(builder, record, FRAME))
    text = cgutils.make_bytearray(name.encode() + b"\0")
    held = cgutils.global_constant(builder.module, "bridge_name", text)
    builder.store(builder.ptrtoint(held, I64), word(builder, record, NAME))
    return builder.bitcast(record, POINTER)


def word(builder: ir.IRBuilder, record: ir.Value, index: int) -> ir.Value:
    """Emits the address of a word of a record."""
    return builder.gep(builder.bitcast(record, I64.as_pointer()), [I64(index)])


@functools.cache
def gil_release_address() -> int:
    """Address of a function that reports the Python exception of a thread, then does what ``numba_gil_release`` does.

    Numba's code leaves such an exception on the thread, or loses it with the thread's Python state.
    """
    return int(_loaded("bridge_report_and_release", ir.FunctionType(ir.VoidType(), [POINTER]), _emit_gil_release))


def _emit_gil_release(builder: ir.IRBuilder, state: ir.Value) -> None:
    occurred = _c_function(builder, ctypes.pythonapi.PyErr_Occurred, POINTER)
    with cgutils.if_unlikely(builder, cgutils.is_not_null(builder, builder.call(occurred, []))):
        _emit_take(builder, RECORD.emit_get(builder))
    release = ir.Function(builder.module, ir.FunctionType(ir.VoidType(), [POINTER]), "numba_gil_release")
    builder.call(release, [state])
    builder.ret_void()


@functools.cache
def fail_address() -> int:
    """Address of :data:`FAIL`."""
    return int(_loaded(FAIL, FAIL_TYPE, _emit_fail))


def _emit_fail(
    builder: ir.IRBuilder, frame: ir.Value, code: ir.Value, exception_info: ir.Value, record: ir.Value
) -> None:
    context = cpu_target.target_context
    status = status_of(builder, code, exception_info)
    with cgutils.if_likely(builder, status.is_error):
        api = context.get_python_api(builder)
        gil = api.gil_ensure()
        context.call_conv.raise_error(builder, api, status)
        _emit_take(builder, record)
        api.gil_release(gil)
    builder.ret(builder.load(word(builder, record, ERROR)))


def _emit_take(builder: ir.IRBuilder, record: ir.Value) -> None:
    """Emits code that reports the Python exception of this thread to a record, and clears it. The GIL is held."""
    fetched = [cgutils.alloca_once_value(builder, POINTER(None)) for _ in range(3)]
    fetch = _c_function(builder, ctypes.pythonapi.PyErr_Fetch, ir.VoidType(), *[POINTER.as_pointer()] * 3)
    builder.call(fetch, fetched)
    report = _c_function(builder, _report, ir.VoidType(), POINTER, POINTER, POINTER, POINTER)
    exception = [builder.load(each) for each in fetched]
    builder.call(report, [record, *exception])
    release = _c_function(builder, ctypes.pythonapi.Py_DecRef, ir.VoidType(), POINTER)
    for each in exception:
        builder.call(release, [each])


@global_compiler_lock
def _loaded(name: str, prototype: ir.FunctionType, emit: Callable[..., None]) -> int:
    """Address of a function that all kernels share, loaded into Numba's engine."""
    library = cpu_target.target_context.codegen().create_library(name)
    module = library.create_ir_module(name)
    function = ir.Function(module, prototype, name)
    emit(ir.IRBuilder(function.append_basic_block()), *function.args)
    library.add_ir_module(module)
    library.finalize()
    return int(library.get_pointer_to_function(name))
