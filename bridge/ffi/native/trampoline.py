"""Makes native functions whose code is set later: XLA gets their address before the handler is compiled."""

from __future__ import annotations

import ctypes
from typing import Any

from llvmlite import binding, ir


class Trampoline:
    """Machine code ``int64_t f(int64_t)`` at a fixed address that calls the function set by :meth:`point_at`.

    It lives as long as the object.
    """

    def __init__(self, first: int):
        self._cell = (ctypes.c_int64 * 1)(first)
        self._owner, self.address = _compiled(ctypes.addressof(self._cell))

    def point_at(self, function: int) -> None:
        """Makes calls from now on go to the function at this address."""
        self._cell[0] = function


def _compiled(cell: int) -> tuple[Any, int]:
    """The engine that keeps the code, and the code's address."""
    word = ir.IntType(64)
    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    module = ir.Module("bridge")
    module.triple = binding.get_process_triple()
    prototype = ir.FunctionType(word, [word])
    function = ir.Function(module, prototype, "trampoline")
    builder = ir.IRBuilder(function.append_basic_block())
    held = builder.load(builder.inttoptr(word(cell), word.as_pointer()))
    builder.ret(builder.call(builder.inttoptr(held, prototype.as_pointer()), function.args, tail=True))
    machine = binding.Target.from_default_triple().create_target_machine()
    parsed = binding.parse_assembly(str(module))
    engine = binding.create_mcjit_compiler(parsed, machine)
    engine.finalize_object()
    return engine, int(engine.get_function_address("trampoline"))
