"""Makes native functions whose code is set later: XLA gets their address before the handler is compiled."""

from __future__ import annotations

import ctypes
import mmap
import platform
import sys
from typing import Any


class Trampoline:
    """Machine code ``int64_t f(int64_t)`` at a fixed address that calls the function set by :meth:`point_at`.

    It lives as long as the object.
    """

    def __init__(self, first: int):
        self._cell = (ctypes.c_int64 * 1)(first)
        self._owner, self.address = _written(ctypes.addressof(self._cell)) or _compiled(ctypes.addressof(self._cell))

    def point_at(self, function: int) -> None:
        """Makes calls from now on go to the function at this address."""
        self._cell[0] = function


def _written(cell: int) -> tuple[Any, int] | None:
    """The code, written by hand: LLVM takes longer to import than all else of the bridge.

    None on other systems and processors, and where the system does not let a process run what it has written. There
    :func:`_compiled` makes the code.
    """
    if sys.platform != "linux" or platform.machine() != "x86_64":
        return None
    code = b"".join(
        [
            b"\xf3\x0f\x1e\xfa",  # endbr64: indirect calls may come here
            b"\x48\xb8" + cell.to_bytes(8, "little"),  # movabs rax, cell
            b"\xff\x20",  # jmp qword ptr [rax]: the argument and the return address stay where they are
        ]
    )
    try:
        page = mmap.mmap(
            -1, mmap.PAGESIZE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, prot=mmap.PROT_READ | mmap.PROT_WRITE
        )
    except OSError:
        return None
    page.write(code)
    held = (ctypes.c_char * mmap.PAGESIZE).from_buffer(page)  # a page with a view of it cannot be closed
    protect = ctypes.CDLL(None).mprotect
    protect.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    address = ctypes.addressof(held)
    if protect(address, mmap.PAGESIZE, mmap.PROT_READ | mmap.PROT_EXEC) != 0:
        return None
    return (page, held), address


def _compiled(cell: int) -> tuple[Any, int]:
    from llvmlite import binding, ir

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
