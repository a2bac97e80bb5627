"""CUDA C++ that the operators' kernels share: an elementwise kernel from the statement for one element."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from suites.backends.backend import RawKernel
from suites.backends.numba_cuda_blocks import THREADS

TYPES = {"float32": "float", "float64": "double", "int32": "int", "int64": "long long"}
"""C++ types by dtype. Half precision needs CUDA's headers, which not every installation of NVRTC finds."""

LOADS = 4
"""Elements per thread, a block apart, as in :mod:`suites.backends.numba_cuda_blocks`."""


def elementwise(
    statement: str, inputs: Sequence[str], outputs: Sequence[str] = ("T* out",), constants: str = ""
) -> RawKernel:
    """A kernel that runs a statement for each element ``i``.

    Args:
        statement: C++ that reads ``x[i]`` and writes ``out[i]``; ``T`` is the element type.
        inputs: Names of the inputs, all of type ``const T*``.
        outputs: Types and names of the outputs.
        constants: Statements before the loop over elements.
    """
    parameters = [f"const T* __restrict__ {name}" for name in inputs]
    parameters += [output.replace("*", "* __restrict__", 1) for output in outputs]
    source = f"""
    template <typename T> __global__ void kernel({", ".join(parameters)}, long long size) {{
        {constants}
        long long first = (long long)blockIdx.x * {LOADS * THREADS} + threadIdx.x;
        #pragma unroll
        for (int part = 0; part < {LOADS}; ++part) {{
            long long i = first + part * {THREADS};
            if (i < size) {{ {statement} }}
        }}
    }}"""

    def launch(inputs: Sequence[Any], outs: Sequence[Any]) -> dict[str, Any]:
        size = int(np.prod(outs[0].shape))
        return {"grid": -(-size // (LOADS * THREADS)), "block": THREADS, "scalars": (np.int64(size),)}

    return RawKernel(source, _instance, launch)


def _instance(dtype: str) -> str:
    return f"kernel<{TYPES[dtype]}>"
