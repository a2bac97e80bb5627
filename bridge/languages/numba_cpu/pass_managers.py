"""Makes llvmlite free LLVM's pass managers, with which Numba optimises every function.

The classes of pass managers in llvmlite 0.45 to 0.50 inherit from ``ObjectRef`` first, whose ``_dispose`` does nothing, and so
hide the one that frees the pass manager. Each function that Numba compiles then keeps 0.7 MB for the life of the process.
"""

from __future__ import annotations

from typing import Any

from llvmlite.binding import ffi, newpassmanagers


def free_pass_managers() -> None:
    """Lets the pass managers of this process be freed with their Python objects, where llvmlite does not do that."""
    kinds: tuple[Any, ...] = (newpassmanagers.ModulePassManager, newpassmanagers.FunctionPassManager)
    for kind in kinds:
        inherited = [vars(base)["_dispose"] for base in kind.__mro__ if "_dispose" in vars(base)]
        if inherited[0] is ffi.ObjectRef._dispose and len(inherited) > 1:
            kind._dispose = inherited[1]
