"""A language that is added in one file (toy_c.py) gets everything that the built-in languages have."""

import jax
import jax.export
import numpy as np
import pytest

from bridge import XLACustomKernel
from suites.unit.bridge import toy_c
from suites.unit.bridge.toy_c import c_kernel

pytestmark = pytest.mark.skipif(toy_c.COMPILER is None, reason="this machine has no C compiler")

Spec = jax.ShapeDtypeStruct
N = 6
OUT = Spec((N,), np.float32)
X, Y = np.arange(N, dtype=np.float32), np.linspace(1, 2, N, dtype=np.float32)
BATCH = np.stack([X, X + 10, X + 20])

ADD = """
void add(int64_t size, const float* x, const float* y, float* out) {
    for (int64_t i = 0; i < size; i++) out[i] = x[i] + y[i];
}
"""


@pytest.fixture
def add():
    return c_kernel(ADD, "add", OUT)


@pytest.mark.parametrize("method", [None, "broadcast_all", "sequential"])
def test_a_batch_of_all_operands_and_of_one(method):
    add = c_kernel(ADD, "add", OUT, vmap_method=method)
    np.testing.assert_array_equal(jax.vmap(add)(BATCH, 2 * BATCH), 3 * BATCH)
    np.testing.assert_array_equal(jax.vmap(add, (0, None))(BATCH, Y), BATCH + Y)
    np.testing.assert_array_equal(jax.jit(jax.vmap(add, (None, 1)))(Y, BATCH.T), BATCH + Y)


def test_a_backend_of_an_operator():
    op = XLACustomKernel("add", outs=lambda x, y: Spec(x.shape, x.dtype))
    op.def_kernel(toy_c.LANGUAGE.name, "cpu", lambda outs: c_kernel(ADD, "add", outs[0]))
    op.def_jnp_kernel(lambda outs: lambda x, y: x - y)
    assert op.defaults["cpu"] == "c"
    np.testing.assert_array_equal(op(X, Y), X + Y)
    np.testing.assert_array_equal(op(X, Y, backend="jnp"), X - Y)
    np.testing.assert_array_equal(jax.vmap(op, (0, None))(BATCH, Y), BATCH + Y)
