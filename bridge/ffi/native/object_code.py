"""Turns a native function of the bridge into object code that holds no address, and loads such code."""

from __future__ import annotations

import ctypes
from typing import Any

from llvmlite import binding

from bridge.errors import AbiError

CONTEXT = "bridge_context"
"""The variable that holds the address of the words which :func:`bridge.ffi.native.words.context_word` reads."""

_ENTRY = "bridge_entry"


class LoadedObject:
    """Object code in memory, which lives as long as the Python object.

    Args:
        content: What :func:`emit_object` returned on a processor of this kind. LLVM does not check it: other bytes may
            end the process.
    """

    def __init__(self, content: bytes):
        binding.initialize_native_target()
        binding.initialize_native_asmprinter()
        machine = binding.Target.from_default_triple().create_target_machine()
        module = binding.parse_assembly(f'target triple = "{binding.get_process_triple()}"')
        self._engine = binding.create_mcjit_compiler(module, machine)  # its own, so no name is taken
        self._engine.add_object_file(binding.ObjectFileRef.from_data(content))
        self._engine.finalize_object()
        self.address = int(self._engine.get_function_address(_ENTRY))

    def set_context(self, words: int) -> None:
        """Sets the address of the words of the function's context."""
        variable = int(self._engine.get_global_value_address(CONTEXT))
        ctypes.c_int64.from_address(variable).value = words


def emit_object(function: Any) -> tuple[bytes, tuple[str, ...]]:
    """The object code of a function and of all that it calls, for :class:`LoadedObject`.

    Args:
        function: A Numba ``CFunc`` that works on words.

    Returns:
        The code, and the names that it takes from outside. Without any, it runs in other processes too.

    Raises:
        AbiError: The function refers to something that is not loaded in this process. LLVM would end the process.
    """
    library = function._library
    context = binding.create_context()
    module = binding.parse_bitcode(library._final_module.as_bitcode(), context)
    try:
        module.get_function(function.native_name).name = _ENTRY
        for value in (*module.functions, *module.global_variables):
            if not value.is_declaration:
                value.linkage = "external" if value.name in (_ENTRY, CONTEXT) else "internal"
        # Once all callees are internal, LLVM sees that they raise nothing, and drops the code for exceptions.
        builder = library.codegen._pass_builder()
        builder.getModulePassManager().run(module, builder)
        values = (*module.functions, *module.global_variables)
        outside = tuple(each.name for each in values if each.is_declaration and not each.name.startswith("llvm."))
        for name in outside:
            if not binding.address_of_symbol(name):
                raise AbiError(f"the native function {function.__name__} refers to {name}, which is not loaded.")
        return bytes(library.codegen._tm.emit_object(module)), outside
    finally:
        module.close()
        context.close()
