"""Links a compiled Numba kernel with an entry for the host plan, and loads both into Numba's own engine.

Numba's LLVM code of a kernel contains all functions that the kernel calls, and the bodies of its parallel loops. The
bridge takes that code as it is, so Numba compiles nothing twice and its cache serves parallel kernels too. In this copy
the calls of a few functions of Numba's runtime go to the bridge instead. Numba's engine has the rest: the environments
of functions, and what kernels take from outside.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from llvmlite import binding, ir
from numba.core import cgutils, types
from numba.core.compiler_lock import global_compiler_lock

from bridge.compat import numba as compat
from bridge.ffi.native.addresses import emit_extents, emit_word, parsed
from bridge.ffi.plans.host import HostPlan
from bridge.languages.numba import failures, parallel
from bridge.languages.numba.failures import COUNT, FAIL, FAIL_TYPE, I64, POINTER, RECORD, emit_new_record, word

_REPLACED: dict[str, Callable[[], int]] = {
    compat.PARALLEL_FOR: lambda: parallel.functions()[0],
    compat.THREAD_NUMBER: lambda: parallel.functions()[1],
    compat.RELEASE_GIL: failures.gil_release_address,
}
"""The functions of Numba's runtime that the bridge replaces in its copy of a kernel, and what it calls instead."""

_serials = itertools.count()


@contextlib.contextmanager
def opened(compiled: Any, *added: str) -> Iterator[tuple[binding.ModuleRef, Callable[[str], None]]]:
    """Numba's code of a kernel, with other LLVM code, in an LLVM module that is closed at the end of the block.

    Also yields a function that links the module with more code.
    """
    with parsed(compat.bitcode(compiled.library)) as (module, context):

        def add(code: str) -> None:
            module.link_in(binding.parse_assembly(code, context))

        compat.check_code(compiled, module)
        _link_recursion(module, compiled, context)
        for code in added:
            add(code)
        yield module, add


def keep_only(module: binding.ModuleRef, name: str) -> None:
    """Hides everything but the function ``name`` from other modules, so that LLVM may inline it, change it and drop it.

    What is hidden gets another name. Numba's engine looks up a function that a later module defines too by its name
    alone, and would find the one that LLVM has changed for this kernel, as one without an argument that is constant
    here. The variables of environments stay: Numba sets one of each name, for all modules.
    """
    for value in (*module.functions, *module.global_variables):
        if not value.is_declaration and not value.name.startswith(compat.ENVIRONMENT):
            value.linkage = "external" if value.name == name else "internal"
            value.name = value.name if value.name == name else f"{name}.{value.name}"


@global_compiler_lock
def load(compiled: Any, arrays: Sequence[types.Array], kernel: str) -> HostPlan:
    """Loads a compiled kernel, for the life of the process, with a plan that calls it.

    Args:
        compiled: Numba's ``CompileResult`` of the kernel for exactly ``arrays``.
        arrays: C-contiguous Numba array types, inputs then outputs.
        kernel: Its name, for error messages.
    """
    entry = f"bridge_entry_{next(_serials)}"
    with linked(compiled, arrays, kernel, entry) as module:
        content, taken = compat.machine_code(module), outside(module)
        provide(taken)
    # Machine code holds addresses of Python objects: of environments, and of what Numba calls dynamic globals.
    return plan_of(compat.load(content, entry), taken, compiled)


def plan_of(address: int, taken: Sequence[str], alive: Any) -> HostPlan:
    """The plan of machine code at an address, which takes these functions from outside.

    The threads share either the batches of a kernel or its parallel loops.
    """
    return HostPlan(address, shares=f"bridge_{compat.PARALLEL_FOR}" not in taken, alive=alive)


@contextlib.contextmanager
def linked(compiled: Any, arrays: Sequence[types.Array], kernel: str, entry: str) -> Iterator[binding.ModuleRef]:
    """The optimised LLVM module of a kernel and its entry; the arguments are those of :func:`load`."""
    with opened(compiled) as (module, add):
        functions = {function.name: function for function in module.functions}
        for name in functions.keys() & _REPLACED.keys():
            functions[name].name = f"bridge_{name}"
        elsewhere = not functions.keys().isdisjoint(_REPLACED)
        # Numba calls set_num_threads by its address, one of the dynamic globals.
        sets_threads = compiled.library.has_dynamic_globals and bool(binding.address_of_symbol("set_num_threads"))
        add(_entry_code(compiled, arrays, kernel, entry, elsewhere, sets_threads))
        keep_only(module, entry)
        module.verify()
        _optimise(module)
        yield module


def outside(module: binding.ModuleRef) -> tuple[str, ...]:
    """The functions and variables that a module takes from the process that loads it."""
    declared = (each.name for each in (*module.functions, *module.global_variables) if each.is_declaration)
    return tuple(name for name in declared if not name.startswith("llvm."))


def provide(names: Sequence[str]) -> None:
    """Makes functions of the bridge known to LLVM, of those that machine code takes from outside."""
    for name in names:
        if name == FAIL:
            binding.add_symbol(FAIL, failures.fail_address())
        elif (replaced := _REPLACED.get(name.removeprefix("bridge_"))) is not None:
            binding.add_symbol(name, replaced())


def _entry_code(
    compiled: Any, arrays: Sequence[types.Array], kernel: str, name: str, raises_elsewhere: bool, sets_threads: bool
) -> str:
    """LLVM code of the C function of a :class:`~bridge.ffi.plans.host.HostPlan`, which runs a kernel once.

    Args:
        compiled: Numba's ``CompileResult`` of the kernel for exactly ``arrays``.
        arrays: C-contiguous Numba array types, inputs then outputs.
        kernel: The kernel, for error messages.
        name: Name of the function.
        raises_elsewhere: Whether exceptions may be raised where the kernel does not see them: in parallel loops, or in
            Python.
        sets_threads: Whether the kernel may call ``numba.set_num_threads``. Numba keeps the number for each thread, and
            XLA's threads run other kernels too, so the number is set back after the call.
    """
    context = compiled.target_context
    module = context.create_module(name)
    function = ir.Function(module, ir.FunctionType(I64, [I64] * 5), name)
    frame, buffers, data, batch_rank, _ = function.args
    builder = ir.IRBuilder(function.append_basic_block())
    arguments = [
        compat.array_value(
            context,
            builder,
            array,
            emit_extents(builder, buffers, index, batch_rank, array.ndim),
            emit_word(builder, data, I64(index)),
        )
        for index, array in enumerate(arrays)
    ]
    record = emit_new_record(builder, kernel, frame)
    if raises_elsewhere:
        before = RECORD.emit_get(builder)
        RECORD.emit_set(builder, record)
    if sets_threads:
        threads = builder.call(ir.Function(module, ir.FunctionType(I64, []), "get_num_threads"), [])
    callee = context.declare_function(module, compiled.fndesc)
    status, _ = context.call_conv.call_function(
        builder, callee, compiled.signature.return_type, compiled.signature.args, arguments
    )
    if sets_threads:
        set_threads = ir.Function(module, ir.FunctionType(ir.VoidType(), [I64]), "set_num_threads")
        builder.call(set_threads, [threads])
    failed = status.is_error
    if raises_elsewhere:
        RECORD.emit_set(builder, before)
        raised = builder.load(word(builder, record, COUNT))
        failed = builder.or_(failed, builder.icmp_signed("!=", raised, I64(0)))
    with cgutils.if_unlikely(builder, failed):
        fail = ir.Function(module, FAIL_TYPE, FAIL)
        info = builder.bitcast(status.excinfoptr, POINTER)
        builder.ret(builder.call(fail, [frame, status.code, info, record]))
    builder.ret(I64(0))
    return str(module)


def _link_recursion(module: binding.ModuleRef, compiled: Any, context: binding.ContextRef) -> None:
    """Makes functions that call themselves call this copy of themselves, not Numba's own one.

    Numba loads their addresses from variables that its engine sets. If such a function calls itself with other types
    than it was called with first, this is another function, which is in no library that the kernel is linked with.
    """
    homes = {each.fndesc.llvm_func_name: each.library for each in _callees(compiled, set())}
    known: set[str] = set()
    while names := {each.name for each in module.global_variables if each.name.startswith(compat.CALLS_ITSELF)} - known:
        known |= names
        for name in names:
            if (home := homes.get(called := name.removeprefix(compat.CALLS_ITSELF))) is not None:
                text = f'@"{name}" = constant ptr @"{called}"\ndeclare i32 @"{called}"(...)\n'
                module.link_in(binding.parse_assembly(text, context))
                module.link_in(binding.parse_bitcode(compat.bitcode(home), context))


def _callees(compiled: Any, seen: set[int]) -> Iterator[Any]:
    """Compile results of the functions that a compiled function calls, directly or not."""
    for each in (compiled.fndesc.typemap or {}).values():
        if isinstance(each, types.Dispatcher) and id(each.dispatcher) not in seen:
            seen.add(id(each.dispatcher))
            for callee in list(each.dispatcher.overloads.values()):
                yield callee
                yield from _callees(callee, seen)


def _optimise(module: binding.ModuleRef) -> None:
    """Optimises a linked kernel. In Numba's own copy other modules may call its helpers; here LLVM inlines them."""
    passes, builder = compat.module_passes()
    passes.add_global_dead_code_eliminate_pass()
    passes.run(module, builder)
