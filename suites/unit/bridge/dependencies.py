"""Makes kernels that depend on a value in every way that Numba knows, as sources in which the value is a word.

Each kernel multiplies its input by the value. Two sources that differ in the value alone must give two kernels.
"""

import linecache
import re
import sys
import types
from typing import Any

_SOURCES = """
=== array
TABLE = np.array([0, VALUE])
KERNEL x[i] * TABLE[1]

=== helper
@numba.njit
def helper(v):
    return v * VALUE
KERNEL helper(x[i])

=== cfunc
@numba.cfunc('f4(f4)')
def helper(v):
    return v * VALUE
KERNEL helper(x[i])

=== overload
def helper(v):
    pass
@overload(helper)
def _(v):
    return lambda v: v * VALUE
KERNEL helper(x[i])

=== exception
@numba.njit
def kernel(x, out):
    for i in range(x.size):
        if x[i] < 0:
            raise ValueError('VALUE')
        out[i] = x[i] * VALUE
"""

_KERNEL = r"""
@numba.njit
def kernel(x, out):
    for i in range(x.size):
        out[i] = \1
"""


def _kinds() -> dict[str, str]:
    found = (part.partition("\n") for part in _SOURCES.split("=== ")[1:])
    return {kind: re.sub(r"^KERNEL (.*)$", _KERNEL, source, flags=re.MULTILINE) for kind, _, source in found}


KINDS = _kinds()
"""Source of a kernel by the way in which it depends on VALUE."""

_IMPORTS = """
import numba, numpy as np
from numba.extending import overload
"""


def kernel_of(kind: str, value: int) -> Any:
    """The kernel of a kind, made anew in a module of its own, always under the same names."""
    found = _module("drawn")
    found.module = _module
    source, file = _IMPORTS + KINDS[kind].replace("VALUE", str(value)), f"<drawn {kind} {value}>"
    linecache.cache[file] = len(source), None, source.splitlines(keepends=True), file
    exec(compile(source, file, "exec"), vars(found))
    return found.kernel


def _module(name: str, **attributes: Any) -> types.ModuleType:
    made = types.ModuleType(name)
    vars(made).update(attributes)
    sys.modules[name] = made
    return made
