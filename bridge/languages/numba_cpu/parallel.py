"""Runs the parallel loops of Numba kernels: exceptions reach the call, and calls from several threads are safe.

Numba drops an exception that is raised inside a parallel loop: the worker that raised it stops, and the function
returns as if it had finished. And its workqueue layer aborts the process when a loop starts while another one runs, be
it inside that loop or on another thread.
"""

from __future__ import annotations

from collections.abc import Sequence

import numba
from llvmlite import binding, ir

from bridge.ffi.plans.host import Mutex
from bridge.languages.numba_cpu import pool
from bridge.languages.numba_cpu.calling_convention import PARALLEL_FOR, THREAD_NUMBER
from bridge.languages.numba_cpu.failures import FRAME, I32, I64, POINTER, STORAGE, word

# The body of a loop takes pointers to arrays, extents and steps, and data of its own.
_BODY = ir.FunctionType(ir.VoidType(), [POINTER] * 4)
# A loop takes a body, what the body takes, and three numbers.
_LOOP = ir.FunctionType(ir.VoidType(), [POINTER] * 5 + [I64] * 3)
_FUNCTION, _DATA, _RECORD, _WORDS = range(4)


def emit_parallel_for(module: ir.Module, name: str) -> None:
    """Adds a function to a module that does what ``numba_parallel_for`` does, for a loop of a kernel.

    The threads that run the body get the record of the call. They belong to XLA where XLA has enough threads, else to
    Numba's threading layer.
    """
    worker = _emit_worker(module, f"{name}_worker")
    function = ir.Function(module, _LOOP, name)
    body, arrays, extents, steps, data, *numbers = function.args
    builder = ir.IRBuilder(function.append_basic_block())
    record = STORAGE.emit_get(builder)
    pack = builder.alloca(POINTER, I64(_WORDS))
    for index, value in ((_FUNCTION, body), (_DATA, data), (_RECORD, record)):
        builder.store(value, builder.gep(pack, [I64(index)]))
    shared = [
        builder.bitcast(worker, POINTER), arrays, extents, steps, builder.bitcast(pack, POINTER), *numbers
    ]  # fmt: skip
    run = pool.run_address()
    if run is not None:
        loop = builder.alloca(I64, I64(pool.LOOP_WORDS))
        for index, value in enumerate(shared):
            number = value if value.type == I64 else builder.ptrtoint(value, I64)
            builder.store(number, builder.gep(loop, [I64(index)]))
        prototype = ir.FunctionType(I64, [I64, I64])
        frame = builder.load(word(builder, record, FRAME))
        ran = builder.call(builder.inttoptr(I64(run), prototype.as_pointer()), [frame, builder.ptrtoint(loop, I64)])
        with builder.if_then(builder.icmp_signed("!=", ran, I64(0))):
            builder.ret_void()
    part = pool.PART.emit_get(builder)
    pool.PART.emit_set(builder, POINTER(None))
    _emit_on_layer(builder, shared, [body, arrays, extents, steps, data])
    pool.PART.emit_set(builder, part)
    builder.ret_void()


def _emit_on_layer(builder: ir.IRBuilder, shared: Sequence[ir.Value], alone: Sequence[ir.Value]) -> None:
    """Emits a loop on the threads of Numba's layer.

    If the layer can run only one loop at a time and runs one already, the calling thread runs the whole body itself: so
    nothing waits, and loops may be nested.
    """
    start = builder.inttoptr(I64(_address_of(PARALLEL_FOR)), _LOOP.as_pointer())
    if numba.threading_layer() != "workqueue":
        builder.call(start, shared)
        return
    mutex = Mutex.new()
    acquire = builder.inttoptr(I64(mutex.acquire), ir.FunctionType(I32, [POINTER, I32]).as_pointer())
    release = builder.inttoptr(I64(mutex.release), ir.FunctionType(ir.VoidType(), [POINTER]).as_pointer())
    lock = builder.inttoptr(I64(mutex.mutex), POINTER)
    without_waiting = I32(0)
    acquired = builder.icmp_unsigned("!=", builder.call(acquire, [lock, without_waiting]), I32(0))
    with builder.if_else(acquired) as (free, busy):
        with free:
            builder.call(start, shared)
            builder.call(release, [lock])
        with busy:
            body, *arguments = alone
            builder.call(builder.bitcast(body, _BODY.as_pointer()), arguments)


def emit_thread_number(module: ir.Module, name: str) -> None:
    """Adds a function that returns the number of the part that this thread runs, else of Numba's layer its thread.

    Numba keeps the sums of a loop by this number. So a sum does not depend on which thread runs a part.
    """
    prototype = ir.FunctionType(I32, [])
    function = ir.Function(module, prototype, name)
    builder = ir.IRBuilder(function.append_basic_block())
    part = builder.ptrtoint(pool.PART.emit_get(builder), I64)
    with builder.if_then(builder.icmp_signed("!=", part, I64(0))):
        builder.ret(builder.trunc(builder.sub(part, I64(1)), I32))
    of_layer = builder.inttoptr(I64(_address_of(THREAD_NUMBER)), prototype.as_pointer())
    builder.ret(builder.call(of_layer, []))


def _emit_worker(module: ir.Module, name: str) -> ir.Function:
    """The body that the layer runs in the place of a loop's own: gives its thread the record meanwhile."""
    worker = ir.Function(module, _BODY, name)
    worker.linkage = "internal"
    arrays, extents, steps, given = worker.args
    builder = ir.IRBuilder(worker.append_basic_block())
    pack = builder.bitcast(given, POINTER.as_pointer())
    body, data, record = (builder.load(builder.gep(pack, [I64(index)])) for index in (_FUNCTION, _DATA, _RECORD))
    before = STORAGE.emit_get(builder)
    STORAGE.emit_set(builder, record)
    builder.call(builder.bitcast(body, _BODY.as_pointer()), [arrays, extents, steps, data])
    STORAGE.emit_set(builder, before)
    builder.ret_void()
    return worker


def _address_of(name: str) -> int:
    address = binding.address_of_symbol(name)
    assert address is not None, "no kernel with a parallel loop has been compiled"
    return int(address)
