"""Holds what the bridge uses of the insides of Numba and of its target for CPUs.

- `Codegen._tm, _tm_features, _pass_builder, _module_pass_manager`: optimise code and emit it as Numba
  does, for this processor and with the user's settings. Unnecessary if Numba offered its passes and its target machine.
- `Codegen._engine._ee, _engine.is_symbol_defined`: kernels are loaded where Numba's own code is, which they refer to.
  Unnecessary if Numba could add an LLVM module to its engine.
- `Codegen.set_env`: code from an exported program gets its Python objects. Unnecessary if Numba took object code.
- `CodeLibrary._get_module_for_linking`: the code of a kernel with all that it calls. Unnecessary if Numba had it in
  public, as `get_llvm_str` has its text.
- `CFunc._library._final_module`: the code of a handler, which is kept on disk. Unnecessary with the same.
- `Dispatcher._can_compile`: whether a kernel is for the signatures that its decorator declares only. Unnecessary if the
  dispatcher told.
- `Dispatcher._compiler.pipeline_class`: a kernel is compiled again with checks of indices, or for read-only arrays, by
  the user's own pipeline. Unnecessary if a dispatcher could be copied with other options.
- `CallConv._get_return_status`: a failed call becomes an exception in a function of its own. Unnecessary if Numba's
  calling convention took the two values of a return.
- `arrayobj.populate_array, StructProxy._getvalue`: an array of Numba over memory of XLA. Unnecessary if
  `numba.carray` worked on read-only memory.
- `ArrayModel._fields`: which argument of compiled code is the address of an array. Unnecessary if Numba said
  what a kernel writes to.
- `numba_parallel_for, get_thread_id, numba_gil_release`: parallel loops run on XLA's threads, and exceptions in them
  reach the caller. Unnecessary if a threading layer could be registered.
- `_ZN08NumbaEnv, numba.dynamic.globals, .numba.unresolved$`: what these variables in the code of a kernel stand for is
  part of its identity. Unnecessary if Numba's code were the same in every process.
- `types.number_domain, numpy_support.FROM_DTYPE, numpy_support.as_dtype, parfor_lowering._lower_parfor_parallel`:
  are replaced while a kernel with float16 or bfloat16 compiles. Unnecessary if Numba's CPU target had such types
  (https://github.com/numba/numba/issues/4402).
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numba
import numpy as np
from llvmlite import binding, ir
from numba.core import types
from numba.core.callconv import excinfo_ptr_t
from numba.core.compiler_lock import global_compiler_lock
from numba.core.datamodel import default_manager
from numba.core.registry import CPUDispatcher, cpu_target
from numba.np import numpy_support
from numba.parfors import parfor_lowering

from bridge.compat.library import Library, reasons

LIBRARY = Library("numba", "0.62.0", "0.68", reasons(__doc__))

ENVIRONMENT, DYNAMIC_GLOBALS, CALLS_ITSELF = "_ZN08NumbaEnv", "numba.dynamic.globals", ".numba.unresolved$"
"""How variables in Numba's code begin: of a function's constants, of addresses that the code holds, and of functions
that call themselves."""

PARALLEL_FOR, THREAD_NUMBER, RELEASE_GIL = "numba_parallel_for", "get_thread_id", "numba_gil_release"
_RUNTIME = {
    PARALLEL_FOR: "void (ptr, ptr, ptr, ptr, ptr, i64, i64, i64)",
    THREAD_NUMBER: "i64 ()",
    RELEASE_GIL: "void (ptr)",
}
"""Functions of Numba's runtime that the bridge replaces in its copy of a kernel, and their types."""

_FIELDS = ("meminfo", "parent", "nitems", "itemsize", "data", "shape", "strides")
"""The arguments that an array becomes; the last two are as many as it has dimensions."""


def _codegen(name: str) -> Any:
    return LIBRARY.get(cpu_target.target_context.codegen(), name)


def pass_builder() -> binding.PassBuilder:
    """Numba's optimisations."""
    return _codegen("_pass_builder")()


def module_passes() -> tuple[binding.ModulePassManager, binding.PassBuilder]:
    """Numba's optimisations of a linked kernel, to run on a module."""
    passes: tuple[binding.ModulePassManager, binding.PassBuilder] = _codegen("_module_pass_manager")()
    return passes


def machine_code(module: binding.ModuleRef) -> bytes:
    """The object code of a module, for this processor."""
    return bytes(_codegen("_tm").emit_object(module))


def converts_float16() -> bool:
    """Whether LLVM converts float16 with this processor. Else it would call functions that Numba does not have."""
    return "+f16c" in _codegen("_tm_features") or not binding.get_process_triple().startswith("x86_64")


def processor_features() -> list[str]:
    """The features that a processor needs to run machine code of Numba, such as ``avx2``.

    The name of a processor stands for features of its own, unless it is ``generic``.
    """
    features = {each[1:] for each in str(_codegen("_tm_features")).split(",") if each.startswith("+")}
    if numba.config.CPU_NAME != "generic":
        features |= {name for name, has in binding.get_host_cpu_features().items() if has}
    return sorted(features)


def load(content: bytes, name: str) -> int:
    """The address of a function of object code, loaded into Numba's own engine for the life of the process."""
    engine = _codegen("_engine._ee")
    engine.add_object_file(binding.ObjectFileRef.from_data(content))
    engine.finalize_object()
    return int(engine.get_function_address(name))


def set_environment(variable: str, environment: Any) -> None:
    """Sets the variable of loaded code that holds its Python objects, which live as long as the code."""
    LIBRARY.get(cpu_target.target_context.codegen(), "set_env")(variable, environment)


def is_loaded(name: str) -> bool:
    """Whether Numba's engine has a function."""
    return bool(_codegen("_engine.is_symbol_defined")(name))


def bitcode(library: Any) -> bytes:
    """The code of a library of Numba, with all that it calls."""
    return bytes(LIBRARY.get(library, "_get_module_for_linking")().as_bitcode())


def final_bitcode(function: Any) -> bytes:
    """The optimised code of a ``CFunc``."""
    return bytes(LIBRARY.get(function, "_library._final_module").as_bitcode())


def check_code(compiled: Any, module: binding.ModuleRef) -> None:
    """Checks the names and types that the bridge knows in the code of a kernel.

    Raises:
        AbiError: This version of Numba has others.
    """
    names = {each.name for each in module.global_variables}
    if not compiled.fndesc.env_name.startswith(ENVIRONMENT):
        raise LIBRARY.changed(f"the variable of constants is {compiled.fndesc.env_name!r}")
    if compiled.library.has_dynamic_globals and not any(name.startswith(DYNAMIC_GLOBALS) for name in names):
        raise LIBRARY.changed(f"no variable is called {DYNAMIC_GLOBALS}")
    for function in module.functions:
        kind = str(function.global_value_type)
        if (wanted := _RUNTIME.get(function.name, kind)) != kind:
            raise LIBRARY.changed(f"{function.name} is {kind}, not {wanted}")


def runtime_address(name: str) -> int:
    """The address of a function of Numba's threading layer, which runs since a parallel loop was compiled."""
    address = binding.address_of_symbol(name)
    if address is None:
        raise LIBRARY.changed(f"no function {name} is loaded")
    return int(address)


def takes_new_types(dispatcher: CPUDispatcher) -> bool:
    """Whether a kernel is compiled for any types, and not only for the signatures that its decorator declares."""
    return bool(LIBRARY.get(dispatcher, "_can_compile"))


def again(dispatcher: CPUDispatcher, options: dict[str, Any]) -> CPUDispatcher:
    """A dispatcher of the same function with other options."""
    pipeline = LIBRARY.get(dispatcher, "_compiler.pipeline_class")
    function, local = dispatcher.py_func, LIBRARY.get(dispatcher, "locals")
    return CPUDispatcher(function, locals=local, targetoptions=options, pipeline_class=pipeline)


def status_of(builder: ir.IRBuilder, code: ir.Value, info: ir.Value) -> Any:
    """The status that a compiled function returned as two values."""
    status = LIBRARY.get(cpu_target.target_context.call_conv, "_get_return_status")
    return status(builder, code, builder.bitcast(info, excinfo_ptr_t))


def array_value(context: Any, builder: ir.IRBuilder, array: types.Array, shape: list[Any], data: ir.Value) -> Any:
    """A C-contiguous array of Numba of this shape over the memory at ``data``."""
    from numba.np import arrayobj  # compiled code has it loaded

    pointer = context.get_data_type(array.dtype).as_pointer()
    size = ir.IntType(64)(context.get_abi_sizeof(pointer.pointee))
    strides = [size]
    for extent in reversed(shape[1:]):
        strides.insert(0, builder.mul(strides[0], extent))
    value = context.make_array(array)(context, builder)
    data = builder.inttoptr(data, pointer)
    strides = strides[: array.ndim]
    arrayobj.populate_array(value, data=data, shape=shape, strides=strides, itemsize=size, meminfo=None)
    return LIBRARY.get(value, "_getvalue")()


def data_arguments(function: binding.ValueRef, arrays: Sequence[types.Array]) -> list[binding.ValueRef]:
    """The arguments of a compiled function that are the addresses of the elements of its arrays.

    The first two arguments are pointers for the result and the exception.
    """
    arguments, at, found = list(function.arguments), 2, []
    for array in arrays:
        if (fields := LIBRARY.get(default_manager[array], "_fields")) != _FIELDS:
            raise LIBRARY.changed(f"an array has the fields {fields}")
        found.append(arguments[at + fields.index("data")])
        at += fields.index("shape") + 2 * array.ndim
    if at != len(arguments):
        raise LIBRARY.changed(f"a function of {arrays} has {len(arguments)} arguments, not {at}")
    return found


Patch = tuple[Any, str, Any]
"""An object, and an attribute of it with another value."""


def patches_for_halves(halves: Mapping[np.dtype[Any], types.Type]) -> list[Patch]:
    """What is replaced in Numba while a kernel with such types compiles, which are computed with as float32 is."""
    kinds = frozenset(halves.values())
    as_dtype, lower_loop = numpy_support.as_dtype, LIBRARY.get(parfor_lowering, "_lower_parfor_parallel")

    def as_number(kind: types.Type) -> types.Type:
        if isinstance(kind, types.BaseAnonymousTuple):
            return types.BaseTuple.from_types(tuple(map(as_number, kind.types)))
        return types.float32 if kind in kinds else kind

    def lower_with_numbers(lowerer: Any, loop: Any) -> None:
        """Hands numbers to the body of a parallel loop as float32: Numba takes their form in memory for the other."""
        own = lowerer.fndesc.typemap
        lowerer.fndesc.typemap = {name: as_number(kind) for name, kind in own.items()}
        try:
            lower_loop(lowerer, loop)
        finally:
            lowerer.fndesc.typemap = own

    return [
        # NumPy's functions take these numbers; they find their loop by the NumPy dtype; and numpy.float16 in a kernel.
        (types, "number_domain", types.number_domain | kinds),
        (numpy_support, "as_dtype", lambda kind: as_dtype(as_number(kind))),
        (numpy_support, "FROM_DTYPE", {**numpy_support.FROM_DTYPE, **halves}),
        (parfor_lowering, "_lower_parfor_parallel", lower_with_numbers),
    ]


@contextlib.contextmanager
def compiling_halves(halves: Mapping[np.dtype[Any], types.Type]) -> Iterator[None]:
    """Replaces :func:`patches_for_halves` in the block, while no other thread compiles."""
    with global_compiler_lock, contextlib.ExitStack() as stack:
        for owner, name, value in patches_for_halves(halves):
            stack.callback(setattr, owner, name, getattr(owner, name))
            setattr(owner, name, value)
        yield
