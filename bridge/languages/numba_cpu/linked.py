"""Makes a compiled Numba kernel callable by the ``bridge_cpu`` target."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from numba.core import types

from bridge.ffi.built import Built
from bridge.ffi.plans.host import HostPlan
from bridge.languages.numba_cpu.entry import entry_code
from bridge.languages.numba_cpu.linking import LinkedCode, may_raise_elsewhere
from bridge.languages.numba_cpu.read_only import changed_inputs
from bridge.signature.array_types import Signature


class Linked:
    """A compiled kernel that the bridge has linked, and loads when it is first called.

    Args:
        compiled: Numba's ``CompileResult`` of the kernel for exactly ``arrays``.
        arrays: C-contiguous Numba array types, inputs then outputs.
        signature: The same types.
        name: The kernel, for error messages.

    Attributes:
        guarded: Indices of the inputs that are not shown to stay unchanged.
    """

    def __init__(self, compiled: Any, arrays: Sequence[types.Array], signature: Signature, name: str):
        self._compiled, self._arrays, self._signature, self._name = compiled, arrays, signature, name
        self._code = LinkedCode(compiled)
        ranks = [array.ndim for array in arrays]
        read_only = [index for index, array in enumerate(arrays) if not array.mutable]
        with self._code.opened() as module:
            self.guarded = tuple(sorted(changed_inputs(module, self._code.kernel, ranks, read_only)))
            self._with_python = may_raise_elsewhere(module)

    def load(self) -> Built:
        """Loads the code."""
        address, objects = self._code.load(
            lambda entry: entry_code(self._compiled, self._arrays, self._name, entry, self._with_python)
        )
        copies = [self._signature.input_sizes[index] for index in self.guarded]
        plan = HostPlan(self._name, address, self._signature.input_sizes, [*self._signature.output_sizes, *copies])
        # Machine code may hold the addresses of Python objects. Only Numba knows which, so it has to keep them.
        if self._compiled.library.has_dynamic_globals:
            objects = (*objects, self._compiled)
        return Built(plan, objects)
