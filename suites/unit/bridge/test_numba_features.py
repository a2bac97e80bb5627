"""A kernel of the bridge leaves plain Numba code alone: both share one engine, which finds code by its name."""

from suites.unit.processes import output

START = """
import jax, jax.numpy as jnp, numba, numpy as np
from bridge import numba_kernel

OUT = jax.ShapeDtypeStruct((8,), jnp.float32)
x = jnp.linspace(0.1, 1, 8)
"""

RECURSIVE = """
@numba.njit
def tree(v, depth, scale):  # LLVM makes one for the constant scale of the kernel
    if depth <= 0:
        return v * scale
    return tree(v + 1, depth - 1, scale) + tree(v - 1, depth - 2, scale)

@numba.njit
def kernel(x, out):
    for i in range(x.size):
        out[i] = tree(np.float64(x[i]), x.size, 2.0)

@numba.njit
def plain(x, out, scale):
    for i in range(x.size):
        out[i] = tree(np.float64(x[i]), x.size, scale)

numba_kernel(kernel, OUT)(x).block_until_ready()
got = np.zeros(8, np.float32)
plain(np.asarray(x), got, 5.0)
np.testing.assert_allclose(got, [tree.py_func(float(v), 8, 5.0) for v in np.asarray(x)], rtol=1e-5)
"""


def test_plain_numba_is_right_after_a_kernel_that_shares_its_helpers():
    output("-c", START + RECURSIVE)
