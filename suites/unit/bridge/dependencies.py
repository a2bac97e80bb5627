"""Makes kernels that depend on a value in every way that Numba knows, as sources in which the value is a word.

Each kernel multiplies its input by the value. Two sources that differ in the value alone must give two kernels.
"""

from __future__ import annotations

import linecache
import sys
import types
from typing import Any

_KERNEL = """
@numba.njit
def kernel(x, out):
    for i in range(x.size):
        out[i] = {expression}
"""


def _kernel(expression: str) -> str:
    return _KERNEL.replace("{expression}", expression)


KINDS = {
    "literal": _kernel("x[i] * VALUE"),
    "global": "SCALE = VALUE" + _kernel("x[i] * SCALE"),
    "numpy scalar": "SCALE = np.float32(VALUE)" + _kernel("x[i] * SCALE"),
    "array": "TABLE = np.array([0, VALUE])" + _kernel("x[i] * TABLE[1]"),
    "large array": "TABLE = np.full(400_000, VALUE)" + _kernel("x[i] * TABLE[399_999]"),
    "record": "TABLE = np.array([(VALUE, 1)], [('a', 'f4'), ('b', 'f4')])" + _kernel("x[i] * TABLE[0].a"),
    "tuple": "PAIR = (1, VALUE)" + _kernel("x[i] * PAIR[1]"),
    "string": "NAME = 'VALUE'" + _kernel("x[i] * (2 if NAME == '2' else 3)"),
    "namedtuple": "P = collections.namedtuple('P', 'a')\nP_ = P(VALUE)" + _kernel("x[i] * P_.a"),
    "namedtuple type": (
        "P = collections.namedtuple('P', 'a b' if VALUE == 2 else 'b a')" + _kernel("x[i] * P(2, 3).a")
    ),
    "enum": "class E(enum.Enum):\n    A = VALUE" + _kernel("x[i] * E.A.value"),
    "int enum": "class E(enum.IntEnum):\n    A = VALUE" + _kernel("x[i] * E.A.value"),
    "helper": "@numba.njit\ndef helper(v):\n    return v * VALUE\n" + _kernel("helper(x[i])"),
    "inlined helper": "@numba.njit(inline='always')\ndef helper(v):\n    return v * VALUE\n" + _kernel("helper(x[i])"),
    "declared helper": "@numba.njit('f4(f4)')\ndef helper(v):\n    return v * VALUE\n" + _kernel("helper(x[i])"),
    "helper of a helper": (
        "@numba.njit\ndef inner(v):\n    return v * VALUE\n@numba.njit\ndef helper(v):\n    return inner(v)\n"
        + _kernel("helper(x[i])")
    ),
    "jitable": "@register_jitable\ndef helper(v):\n    return v * VALUE\n" + _kernel("helper(x[i])"),
    "vectorize": "@numba.vectorize\ndef helper(v):\n    return v * VALUE\n" + _kernel("helper(x[i])"),
    "declared vectorize": "@numba.vectorize(['f4(f4)'])\ndef helper(v):\n    return v * VALUE\n"
    + _kernel("helper(x[i])"),
    "guvectorize": (
        "@numba.guvectorize(['f4[:], f4[:]'], '(n)->(n)')\ndef helper(v, r):\n    for j in range(v.size):\n"
        "        r[j] = v[j] * VALUE\n@numba.njit\ndef kernel(x, out):\n    helper(x, out)\n"
    ),
    "cfunc": "@numba.cfunc('f4(f4)')\ndef helper(v):\n    return v * VALUE\n" + _kernel("helper(x[i])"),
    "intrinsic": (
        "@intrinsic\ndef helper(context, v):\n    def codegen(context, builder, signature, args):\n"
        "        return builder.fmul(args[0], args[0].type(VALUE))\n    return v(v), codegen\n"
        + _kernel("helper(x[i])")
    ),
    "overload": (
        "def helper(v):\n    pass\n@overload(helper)\ndef _(v):\n    return lambda v: v * VALUE\n"
        + _kernel("helper(x[i])")
    ),
    "jitclass": (
        "@jitclass([('a', numba.float32)])\nclass Box:\n    def __init__(self):\n        self.a = VALUE\n"
        + _kernel("x[i] * Box().a")
    ),
    "locals of the kernel": (
        "@numba.njit(locals={'t': numba.int32 if VALUE == 3 else numba.float64})\ndef kernel(x, out):\n"
        "    t = x.size * 0.625\n    for i in range(x.size):\n        out[i] = x[i] * (3 if t == 2 else 2)\n"
    ),
    "locals of a helper": (
        "@numba.njit(locals={'t': numba.int32 if VALUE == 3 else numba.float64})\ndef helper(n):\n"
        "    t = n * 0.625\n    return t\n" + _kernel("x[i] * (3 if helper(x.size) == 2 else 2)")
    ),
    "module": "settings = module('settings', SCALE=VALUE)" + _kernel("x[i] * settings.SCALE"),
    "sub-module": "pkg = module('pkg', sub=module('pkg.sub', SCALE=VALUE))" + _kernel("x[i] * pkg.sub.SCALE"),
    "sub-module in a helper": (
        "pkg = module('pkg', sub=module('pkg.sub', SCALE=VALUE))\n@numba.njit\ndef helper(v):\n"
        "    return v * pkg.sub.SCALE\n" + _kernel("helper(x[i])")
    ),
    "module in a closure": (
        "def make(settings):\n    @numba.njit\n    def kernel(x, out):\n        for i in range(x.size):\n"
        "            out[i] = x[i] * settings.SCALE\n    return kernel\nkernel = make(module('settings', SCALE=VALUE))\n"
    ),
    "closure": (
        "def make(scale):\n    @numba.njit\n    def kernel(x, out):\n        for i in range(x.size):\n"
        "            out[i] = x[i] * scale\n    return kernel\nkernel = make(VALUE)\n"
    ),
    "import in the body": (
        "module('drawn_settings', SCALE=VALUE)\n@numba.njit\ndef kernel(x, out):\n    from drawn_settings import SCALE\n"
        "    for i in range(x.size):\n        out[i] = x[i] * SCALE\n"
    ),
    "default": "@numba.njit\ndef helper(v, scale=VALUE):\n    return v * scale\n" + _kernel("helper(x[i])"),
    "stencil": (
        "@numba.stencil\ndef helper(v):\n    return v[0] * VALUE\n@numba.njit\ndef kernel(x, out):\n    out[:] = helper(x)\n"
    ),
    "fast math": (
        "@numba.njit(fastmath=VALUE == 3)\ndef kernel(x, out):\n    for i in range(x.size):\n        out[i] = x[i] * 2.0\n"
        "        if not x[i] == x[i] + 0.0 * np.float32(np.inf):\n            out[i] = x[i] * 2.0\n"
    ),
    "error model": (
        "@numba.njit(error_model='numpy' if VALUE == 3 else 'python')\ndef kernel(x, out):\n"
        "    for i in range(x.size):\n        out[i] = x[i] * 2.0 / x[i] * x[i]\n"
    ),
    "parallel": (
        "@numba.njit(parallel=True)\ndef kernel(x, out):\n    for i in numba.prange(x.size):\n        out[i] = x[i] * VALUE\n"
    ),
    "parallel helper": (
        "@numba.njit(parallel=True)\ndef helper(x, out):\n    for i in numba.prange(x.size):\n        out[i] = x[i] * VALUE\n"
        "@numba.njit\ndef kernel(x, out):\n    helper(x, out)\n"
    ),
    "exception": (
        "@numba.njit\ndef kernel(x, out):\n    for i in range(x.size):\n        if x[i] < 0:\n"
        "            raise ValueError('VALUE')\n        out[i] = x[i] * VALUE\n"
    ),
}
"""Source of a kernel by the way in which it depends on VALUE."""

SAME_RESULT = frozenset({"fast math", "error model"})
"""Kinds whose result for these inputs is twice the input for both values, although the code differs."""

_IMPORTS = """
import collections, enum
import numba, numpy as np
from numba.experimental import jitclass
from numba.extending import intrinsic, overload, register_jitable
"""


def kernel_of(kind: str, value: int) -> Any:
    """The kernel of a kind, made anew in a module of its own, always under the same names."""
    found = _module("drawn")
    found.module = _module  # type: ignore[attr-defined]
    source, file = _IMPORTS + KINDS[kind].replace("VALUE", str(value)), f"<drawn {kind} {value}>"
    linecache.cache[file] = len(source), None, source.splitlines(keepends=True), file
    exec(compile(source, file, "exec"), vars(found))
    return found.kernel


def _module(name: str, **attributes: Any) -> types.ModuleType:
    made = types.ModuleType(name)
    vars(made).update(attributes)
    sys.modules[name] = made
    return made
