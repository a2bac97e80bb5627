"""Makes a compiled Numba kernel callable by the ``bridge_cpu`` target."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from numba.core import types

from bridge.ffi.built import Built
from bridge.ffi.plans.host import HostPlan
from bridge.languages.numba_cpu.entry import entry_code
from bridge.languages.numba_cpu.linking import Code
from bridge.languages.numba_cpu.read_only import changed_inputs
from bridge.signature.array_types import Signature


def link(compiled: Any, arrays: Sequence[types.Array], signature: Signature, name: str) -> Built:
    """Links and loads a compiled kernel.

    Args:
        compiled: Numba's ``CompileResult`` of the kernel for exactly ``arrays``.
        arrays: C-contiguous Numba array types, inputs then outputs.
        signature: The same types.
        name: The kernel, for error messages.
    """
    code = Code(compiled)
    ranks = [array.ndim for array in arrays]
    read_only = [index for index, array in enumerate(arrays) if not array.mutable]
    guarded = tuple(sorted(changed_inputs(code.module, code.kernel, ranks, read_only)))
    with_python = code.with_python
    address, objects = code.load(lambda entry: entry_code(compiled, arrays, name, entry, with_python))
    copies = [signature.input_sizes[index] for index in guarded]
    plan = HostPlan(name, address, signature.input_sizes, [*signature.output_sizes, *copies])
    # Machine code may hold the addresses of Python objects. Only Numba knows which, so it has to keep them.
    alive = (objects, compiled if compiled.library.has_dynamic_globals else None)
    return Built(plan, alive, guarded=guarded)
