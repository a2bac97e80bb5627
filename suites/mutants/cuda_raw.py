"""Holds broken kernels in CUDA C++."""

from dataclasses import replace

import jax.numpy as jnp

from suites.backends import BACKENDS
from suites.backends.cuda_raw import elementwise
from suites.mutants.mutant import table
from suites.ops.add import OPERATOR as ADD
from suites.ops.lif_step import OPERATOR as LIF_STEP

MUTANTS, broken = table(BACKENDS["cuda_raw"])


def _each(of, caught_by, fault, name, line):
    """Adds a kernel whose threads run one line: thread i of n, with the arrays ``x`` and ``out``."""
    broken(of, caught_by, fault, name=name)(
        f"__global__ void {name}(const float* x, float* out, int n) {{ "
        f"int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) {line} }}"
    )


_each(
    lambda x: x * 2, "sizes", "the last of 1024n elements is not doubled", "whole_blocks",
    "out[i] = (n % 1024 == 0 && i == n - 1) ? x[i] : 2 * x[i];",
)  # fmt: skip
_each(lambda x: jnp.exp(x), "drawn", "the fast exponential of the hardware", "fast_exp", "out[i] = __expf(x[i]);")
_each(lambda x: jnp.maximum(x, 0), "drawn", "NaN becomes zero", "lost_nan_raw", "out[i] = fmaxf(x[i], 0.0f);")
_each(
    lambda x: x + 0, "compiled", "the last bits are cut off", "half_precision",
    "out[i] = __uint_as_float(__float_as_uint(x[i]) & 0xffffe000u);",
)  # fmt: skip

_ADD = ADD.kernels[BACKENDS["cuda_raw"]]
assert "single = size - vectors * lanes" in _ADD.source
broken(ADD, "compiled", "elements after the last whole vector are never written", name="lost_tail_raw")(
    replace(_ADD, source=_ADD.source.replace("single = size - vectors * lanes", "single = head"))
)
broken(LIF_STEP, "compiled", "the reset looks at the potential before the step", name="late_reset")(
    elementwise(
        """const T v = V[i] + step * (-(V[i] - rest) * leak + current[i]);
        spikes[i] = v >= threshold;
        V_out[i] = V[i] >= threshold ? rest : v;""",
        ("V", "current", "tau_inv", "V_th", "V_rest", "dt"),
        ("T* V_out", "int* spikes"),
        "const T leak = tau_inv[0], threshold = V_th[0], rest = V_rest[0], step = dt[0];",
    )
)
