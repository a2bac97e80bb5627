"""Loads machine code that the bridge has linked, for the life of the process."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Mapping

from llvmlite import binding

from bridge.errors import KernelCompileError


class Loader:
    """Emits LLVM modules as machine code and loads them. Each costs a few pages of memory, and is never unloaded."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._serials = itertools.count()
        self._engine: binding.ExecutionEngine | None = None
        self._defined: dict[str, int] = {}

    def serial(self) -> int:
        """A number for the names of one module: all modules share one set of names."""
        return next(self._serials)

    def load(self, module: binding.ModuleRef, machine: binding.TargetMachine, symbols: Mapping[str, int]) -> None:
        """Loads a module.

        Args:
            module: Declares what it takes from elsewhere.
            machine: Emits the machine code.
            symbols: Addresses of declarations that LLVM itself cannot find.

        Raises:
            KernelCompileError: A declaration is found nowhere. LLVM would end the process.
        """
        with self._lock:
            engine = self._engine = self._engine or _new_engine()
            for value in (*module.functions, *module.global_variables):
                if not value.is_declaration or value.name.startswith("llvm."):
                    continue
                if value.name in symbols:
                    self._define(engine, value, symbols[value.name])
                elif not binding.address_of_symbol(value.name):
                    raise KernelCompileError(
                        f"a kernel calls the function {value.name!r}, which is not loaded in this process. Load the "
                        "library that has it with llvmlite.binding.load_library_permanently."
                    )
            engine.add_object_file(binding.ObjectFileRef.from_data(machine.emit_object(module)))
            engine.finalize_object()

    def _define(self, engine: binding.ExecutionEngine, value: binding.ValueRef, address: int) -> None:
        known = self._defined.get(value.name)
        assert known in (None, address), f"{value.name} has another address"
        if known is None:
            engine.add_global_mapping(value, address)
            self._defined[value.name] = address

    def function(self, name: str) -> int:
        """Address of a loaded function."""
        assert self._engine is not None
        return int(self._engine.get_function_address(name))

    def variable(self, name: str) -> int:
        """Address of a loaded global variable."""
        assert self._engine is not None
        return int(self._engine.get_global_value_address(name))


def _new_engine() -> binding.ExecutionEngine:
    empty = binding.parse_assembly(f'target triple = "{binding.get_process_triple()}"')
    return binding.create_mcjit_compiler(empty, binding.Target.from_default_triple().create_target_machine())


LOADER = Loader()
"""Holds the machine code of all Numba kernels."""
