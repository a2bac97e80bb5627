"""A language that is added in one file (toy_c.py) gets everything that the built-in languages have."""

import textwrap

import jax
import jax.export
import numpy as np
import pytest

import bridge
from bridge import XLACustomKernel
from suites.unit.bridge import toy_c
from suites.unit.bridge.toy_c import c_kernel
from suites.unit.processes import output

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


RUN = textwrap.dedent(
    """
    import sys, jax, jax.export, jax.numpy as jnp, bridge
    from suites.unit.bridge import test_toy_language as here
    from suites.unit.bridge.toy_c import c_kernel

    program = jax.export.deserialize(open(sys.argv[1], "rb").read())

    def attempt():
        try:
            print([each.tolist() for each in program.call(here.X, here.BATCH)])
        except jax.errors.JaxRuntimeError as error:
            print(str(error).partition("BridgeError: ")[2].splitlines()[0])

    attempt()
    c_kernel(here.ADD.replace("+", "-"), "add", here.OUT)
    attempt()
    c_kernel(here.ADD, "add", here.OUT)
    attempt()
    """
)


def test_an_exported_program_runs_in_a_process_that_defines_the_kernel_and_not_before(add, tmp_path):
    def function(x, batch):
        return add(x, Y), jax.vmap(add, (0, None))(batch, x)

    specs = OUT, Spec(BATCH.shape, BATCH.dtype)
    checks = bridge.export_checks()
    program = jax.export.export(jax.jit(function), platforms=["cpu"], disabled_checks=checks)(*specs)
    blob = tmp_path / "program"
    blob.write_bytes(program.serialize())
    nothing, another, same = output("-c", RUN, blob, JAX_PLATFORMS="cpu").splitlines()
    assert "this program calls the c kernel 'add', but nothing in this process provides c kernels" in nothing
    assert "this program calls the C function 'add', which this process has not defined. Call c_kernel on" in another
    assert same == str([(X + Y).tolist(), (BATCH + X).tolist()])
