"""Makes llvmlite free LLVM's pass managers, with which Numba optimises every function.

In llvmlite 0.45 to 0.50, the classes of pass managers inherit from ``ObjectRef`` first. Its ``_dispose`` does nothing,
and hides the one that frees a pass manager. So each kernel that Numba compiles leaves 0.7 MB of them.
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
