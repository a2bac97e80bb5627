"""Turns kernels of other languages into JAX operations, which native XLA FFI handlers call.

The rooms, in the order of a call:

- :mod:`bridge.adapters`: interfaces of other libraries, so that their code runs here.
- :mod:`bridge.operator`: an operator with several kernels chooses one of them.
- :mod:`bridge.languages`: a kernel of one language becomes a function of arrays, and is compiled for their types.
- :mod:`bridge.kernel`: what all languages share: definitions, types of arguments, the identity of code, wrappers.
- :mod:`bridge.cuda`: what CUDA code includes, its launch shapes, and its machine code for the GPUs that are there.
- :mod:`bridge.ffi`: the JAX primitive of a call, and the native handler that XLA calls.
- :mod:`bridge.debug`: checks kernels as they run, and compares results with a reference.
- :mod:`bridge.compat`: what all of these use of other libraries' insides.

``import bridge`` imports JAX, and registers the native handlers, so that a process that imports nothing else can run
exported programs. The rest is imported when a name is first used: Numba, LLVM and Warp take longer to import than all
else. Without Warp, functions that need it raise an error when called.
"""

from __future__ import annotations

import ast
import importlib
from pathlib import Path
from typing import Any

from bridge.ffi.target import TARGETS as _TARGETS

__version__ = "0.1.0"

_STUB = ast.parse(Path(__file__).with_suffix(".pyi").read_text(encoding="utf-8"))
_HOMES = {name.name: str(each.module) for each in _STUB.body if isinstance(each, ast.ImportFrom) for name in each.names}
"""The module of each public name, which is imported when the name is first used."""

__all__ = list(_HOMES)


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if home.startswith("bridge.languages.warp."):
        try:
            importlib.import_module("warp")
        except ImportError as error:
            from bridge.table import stand_in

            return stand_in(name, error)
    globals()[name] = found = getattr(importlib.import_module(home), name)
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


def _resolve(platform: str, description: str, code: str) -> int:
    """Finds the kernel of a program from another process, or loads the code that the program holds."""
    from bridge.kernel.definitions import DEFINITIONS

    return DEFINITIONS.resolve(platform, description, code)


for _target in _TARGETS:
    _target.resolve_with(_resolve)
