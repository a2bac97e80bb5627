"""Makes Numba's engine forget the LLVM modules of code that nothing else refers to.

The engine keeps a Python object for each module that it was ever given, and searches all of them in order each time it
emits machine code. LLVM owns the modules themselves, so only what is still to be compiled has to be found, and Numba
holds that. The same objects take the garbage collector's time in each collection.
"""

from __future__ import annotations

import functools
import weakref

from numba.core.compiler_lock import global_compiler_lock
from numba.core.registry import cpu_target


@functools.cache
def hold_modules_weakly() -> None:
    """Makes the engine refer to its modules weakly from now on. Without an engine, it makes that first."""
    with global_compiler_lock:
        engine = cpu_target.target_context.codegen()._engine._ee
        engine._modules = weakref.WeakSet(engine._modules)
