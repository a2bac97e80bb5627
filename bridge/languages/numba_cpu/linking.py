"""Links a compiled Numba kernel into machine code of the bridge's own, with an entry for the host plan.

Numba's LLVM code of a kernel contains all functions that the kernel calls, and the bodies of its parallel loops. The
bridge takes that code as it is, so Numba compiles nothing twice and its cache serves parallel kernels too. Only the
calls of a few functions of Numba's runtime go to the bridge instead, see
:data:`bridge.languages.numba_cpu.runtime.REPLACED`.
"""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Callable, Iterator
from typing import Any

from llvmlite import binding
from numba.core import types
from numba.core.compiler_lock import global_compiler_lock

from bridge.languages.numba_cpu import runtime
from bridge.languages.numba_cpu.calling_convention import ENVIRONMENT, UNRESOLVED
from bridge.languages.numba_cpu.loading import LOADER


class LinkedCode:
    """The LLVM code of a compiled kernel and of everything that it calls, apart from Numba's own copy.

    Args:
        compiled: Numba's ``CompileResult`` of the kernel.
    """

    def __init__(self, compiled: Any):
        self._compiled = compiled
        self._library = compiled.library
        self.kernel: str = compiled.fndesc.llvm_func_name
        self._bitcode = _bitcode(self._library)
        with self.opened() as module:
            self._link_recursion(module)
            self._keep_only(module, self.kernel)
            self._bitcode = bytes(module.as_bitcode())

    @contextlib.contextmanager
    def opened(self) -> Iterator[binding.ModuleRef]:
        """The code as an LLVM module, which is closed at the end of the block.

        It has a context of its own, because LLVM frees types and constants with their context. A module must be closed
        before its context. Python's garbage collector knows no such order, so no LLVM object lives longer than a block.
        """
        context = binding.create_context()
        module = binding.parse_bitcode(self._bitcode, context)
        try:
            yield module
        finally:
            module.close()
            context.close()

    @global_compiler_lock
    def load(self, entry: Callable[[str], str]) -> tuple[int, tuple[Any, ...]]:
        """Loads the code.

        Args:
            entry: Returns LLVM code that defines a function of a given name and declares the kernel.

        Returns:
            The address of that function, and the Python objects that the code refers to.
        """
        serial = LOADER.serial()
        name = f"bridge_entry_{serial}"
        with self.opened() as module:
            # Passing an entry's arguments to a kernel costs a few ns, and optimising the kernel again some 10 ms.
            has_helpers = any(not each.is_declaration and each.name != self.kernel for each in module.functions)
            _link(module, entry(name), None if has_helpers else self._optimise)
            self._keep_only(module, name)
            symbols = {}
            for function in list(module.functions):
                if (replacement := runtime.REPLACED.get(function.name)) is not None:
                    function.name = replacement
                    symbols[replacement] = runtime.address(replacement)
            if any(function.name == runtime.FAIL for function in module.functions):
                symbols[runtime.FAIL] = runtime.address(runtime.FAIL)
            environments = self._rename_environments(module, serial)
            if has_helpers:
                self._optimise(module)
            LOADER.load(module, self._library.codegen._tm, symbols)
        for variable, environment in environments.items():
            ctypes.c_void_p.from_address(LOADER.variable(variable)).value = environment
        return LOADER.function(name), tuple(
            ctypes.cast(environment, ctypes.py_object).value for environment in environments.values() if environment
        )

    def _optimise(self, module: binding.ModuleRef) -> None:
        """Optimises code; where nothing but the entry can be called from outside, LLVM also inlines large helpers.

        In Numba's own copy other modules may call them too, so LLVM keeps them apart: each call passes every field of
        every array on the stack, and counts references that do not exist, because the bridge's arrays have no owner.
        """
        module.verify()
        passes, builder = self._library.codegen._module_pass_manager()
        passes.add_global_dead_code_eliminate_pass()  # functions whose last call is gone
        passes.run(module, builder)

    def _link_recursion(self, module: binding.ModuleRef) -> None:
        """Defines the variables through which functions call themselves, if any. Numba does so when it loads code."""
        while names := [each.name for each in module.global_variables if _is_unresolved(each)]:
            for name in names:
                called = name.removeprefix(UNRESOLVED)
                if not self._defines(module, called):
                    # The function calls itself with other types than it was called with first.
                    for each in _callees(self._compiled, set()):
                        if each.fndesc.llvm_func_name == called:
                            _link(module, _bitcode(each.library))
                            break
                if self._defines(module, called):
                    text = f'@"{name}" = constant ptr @"{called}"\ndeclare i32 @"{called}"(...)\n'
                else:
                    address = self._library.codegen._engine.get_function_address(called)
                    text = f'@"{name}" = constant ptr inttoptr (i64 {address} to ptr)\n'
                _link(module, text)

    @staticmethod
    def _defines(module: binding.ModuleRef, name: str) -> bool:
        return any(each.name == name and not each.is_declaration for each in module.functions)

    def _keep_only(self, module: binding.ModuleRef, name: str) -> None:
        """Drops what the function ``name`` does not use, and hides the rest from other modules."""
        for value in (*module.functions, *module.global_variables):
            if not value.is_declaration:
                value.linkage = "external" if value.name == name else "internal"
        passes = binding.create_new_module_pass_manager()
        passes.add_global_dead_code_eliminate_pass()  # no pass that trusts an initial value: environments are set later
        passes.run(module, self._library.codegen._pass_builder())

    def _rename_environments(self, module: binding.ModuleRef, serial: int) -> dict[str, int]:
        """Gives the variables of environments names of their own; returns their values in Numba's copy."""
        values = {}
        for index, variable in enumerate(module.global_variables):
            if variable.name.startswith(ENVIRONMENT) and not variable.is_declaration:
                place = self._library.codegen._engine.get_global_value_address(variable.name)
                variable.name = f"bridge_environment_{serial}_{index}"
                variable.linkage = "external"  # LLVM may not conclude that nothing sets it
                values[variable.name] = ctypes.c_void_p.from_address(place).value or 0 if place else 0
        return values


def may_raise_elsewhere(module: binding.ModuleRef) -> bool:
    """Whether exceptions may be raised where the kernel does not see them: in parallel loops, or in Python."""
    return any(function.name in runtime.REPLACED for function in module.functions)


def _link(
    module: binding.ModuleRef, code: str | bytes, prepare: Callable[[binding.ModuleRef], None] | None = None
) -> None:
    """Links LLVM code, as text or as bitcode, into a module."""
    parse = binding.parse_assembly if isinstance(code, str) else binding.parse_bitcode
    added = parse(code, module._context)
    try:
        if prepare is not None:
            prepare(added)
        module.link_in(added)
    finally:
        added.close()  # does nothing if it has become a part of the module


def _bitcode(library: Any) -> bytes:
    if any(not function.is_declaration for function in library._final_module.functions):
        return bytes(library._final_module.as_bitcode())
    return bytes(library._get_module_for_linking().as_bitcode())  # loaded from Numba's cache


def _is_unresolved(variable: binding.ValueRef) -> bool:
    return bool(variable.is_declaration and variable.name.startswith(UNRESOLVED))


def _callees(compiled: Any, seen: set[int]) -> Iterator[Any]:
    """All compile results of the functions that a compiled function calls, directly or not."""
    for each in (compiled.fndesc.typemap or {}).values():
        if isinstance(each, types.Dispatcher) and id(each.dispatcher) not in seen:
            seen.add(id(each.dispatcher))
            for callee in list(each.dispatcher.overloads.values()):
                yield callee
                yield from _callees(callee, seen)
