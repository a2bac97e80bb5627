"""Programs that define a Numba-CUDA kernel with a dependency, for tests of what identifies a kernel.

Each program is text with the place ``VALUE``. The kernel's result depends on the value.
"""

HEADER = """
import math, types as python_types
import numpy as np
from numba import cuda, types
from numba.cuda.extending import intrinsic, overload
"""

KINDS = {
    "device function": "@cuda.jit(device=True)\ndef inner(x): return x * VALUE\n@cuda.jit(device=True)\n"
    "def work(x): return inner(x)",
    "global array": "SCALES = np.array([VALUE, 1.0])\ndef work(x): return x * SCALES[0]",
    "constant array": "SCALES = np.array([VALUE, 1.0])\ndef work(x): return x * cuda.const.array_like(SCALES)[0]",
    "overload": "def work(x): return x\n@overload(work, target='cuda')\ndef _(x):\n"
    "    def work(x): return x * VALUE\n    return work",
    "intrinsic": "@intrinsic\ndef work(typingctx, x):\n    def generate(context, builder, signature, args):\n"
    "        scale = context.get_constant(types.float32, VALUE)\n"
    "        return builder.fmul(args[0], scale)\n    return types.float32(types.float32), generate",
    "fastmath": "OPTIONS['fastmath'] = VALUE > 2\ndef work(x): return x / 3.1",
    "optimisation": "OPTIONS['opt'] = VALUE > 2\ndef work(x): return x / 3.1",
    "launch bounds": "OPTIONS['launch_bounds'] = int(32 * VALUE)\ndef work(x): return x",
    "registers": "OPTIONS['max_registers'] = int(32 * VALUE)\ndef work(x): return x",
    "carveout": "OPTIONS['shared_memory_carveout'] = int(32 * VALUE)\ndef work(x): return x",
}
"""What a kernel may depend on. ``work(x)`` is what it calls."""

KERNEL = """
if not hasattr(work, "py_func") and isinstance(work, python_types.FunctionType) and KIND not in ("overload",):
    work = cuda.jit(device=True, **{k: v for k, v in OPTIONS.items() if k in ("opt", "fastmath")})(work)

@cuda.jit(**OPTIONS)
def kernel(x, out):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = work(x[i])
"""


def source_of(kind: str, value: float) -> str:
    """A program that defines the dispatcher ``kernel``."""
    return f"{HEADER}\nKIND, OPTIONS = {kind!r}, {{}}\n{KINDS[kind]}\n{KERNEL}".replace("VALUE", repr(value))
