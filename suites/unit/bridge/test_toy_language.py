"""A language that is added in one file (toy_c.py) gets everything that the built-in languages have."""

import textwrap

import jax
import jax.export
import jax.numpy as jnp
import numpy as np
import pytest

import bridge
from bridge import KernelCompileError, PlatformError, SignatureError, XLACustomKernel
from bridge.ffi.target import CPU
from bridge.languages import DEFINITIONS
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
INCREMENT = """
void increment(int64_t size, float* x, float* out) {
    for (int64_t i = 0; i < size; i++) out[i] += 1;
}
"""
FORGETFUL = """
void forgetful(int64_t size, const float* x, float* out) {
    for (int64_t i = 0; i < size - 1; i++) out[i] = x[i];
}
"""


@pytest.fixture
def add():
    return c_kernel(ADD, "add", OUT)


def test_an_eager_call_and_a_jitted_one(add):
    np.testing.assert_array_equal(add(X, Y), X + Y)
    np.testing.assert_array_equal(jax.jit(lambda x: 2 * add(x, Y))(X), 2 * (X + Y))


def test_a_loop(add):
    summed = jax.jit(lambda x: jax.lax.fori_loop(0, 10, lambda _, total: add(total, x), jnp.zeros(N)))(X)
    np.testing.assert_array_equal(summed, 10 * X)


@pytest.mark.parametrize("method", [None, "broadcast_all", "sequential"])
def test_a_batch_of_all_operands_and_of_one(method):
    add = c_kernel(ADD, "add", OUT, vmap_method=method)
    np.testing.assert_array_equal(jax.vmap(add)(BATCH, 2 * BATCH), 3 * BATCH)
    np.testing.assert_array_equal(jax.vmap(add, (0, None))(BATCH, Y), BATCH + Y)
    np.testing.assert_array_equal(jax.jit(jax.vmap(add, (None, 1)))(Y, BATCH.T), BATCH + Y)


def test_a_batch_of_batches(add):
    nested = jax.vmap(jax.vmap(add, (0, None)), (None, 0))
    np.testing.assert_array_equal(nested(BATCH, np.stack([X, Y])), BATCH[None] + np.stack([X, Y])[:, None])


def test_outputs_as_a_function_of_the_inputs():
    add = c_kernel(ADD, "add", lambda x, y: Spec(x.shape, x.dtype))
    for size in (2, 5):
        np.testing.assert_array_equal(add(X[:size], Y[:size]), X[:size] + Y[:size])


def test_an_alias():
    increment = c_kernel(INCREMENT, "increment", OUT, input_output_aliases={0: 0})
    x = jnp.asarray(X)
    np.testing.assert_array_equal(increment(x), X + 1)
    np.testing.assert_array_equal(x, X)
    np.testing.assert_array_equal(jax.vmap(increment)(BATCH), BATCH + 1)


class TestErrors:
    def test_another_number_of_arrays(self, add):
        with pytest.raises(SignatureError, match=r"add\(x, y, out\) got 1 inputs and has 1 outputs .* expected 3"):
            add(X)

    def test_an_argument_that_is_no_array(self, add):
        with pytest.raises(SignatureError, match=r"add: argument 1 \('y'\) is a str"):
            add(X, "y")

    def test_another_dtype(self, add):
        with pytest.raises(KernelCompileError, match="add takes float32, float32, float32, but was called with int32"):
            add(X.astype(np.int32), Y)
        with pytest.raises(KernelCompileError, match=r"add: C has no float16 arrays\. Convert it to float32"):
            add(X.astype(np.float16), Y)

    def test_a_symbolic_shape(self, add):
        (n,) = jax.export.symbolic_shape("n")
        with pytest.raises(SignatureError, match=r"add: .* has a symbolic shape"):
            jax.eval_shape(c_kernel(ADD, "add", lambda x, y: x), Spec((n,), np.float32), Spec((n,), np.float32))

    def test_source_that_does_not_compile(self):
        with pytest.raises(KernelCompileError, match=r"cannot compile wrong:(.|\n)*wrong.c"):
            c_kernel("void wrong(int64_t size, float* out) { nonsense; }", "wrong", OUT)()

    def test_an_exception_of_another_kind_names_the_language(self, monkeypatch):
        def lost(name, program):
            raise KeyError("lost")

        monkeypatch.setattr(toy_c, "_compiled", lost)
        with pytest.raises(KeyError) as caught:
            c_kernel(ADD.replace("+", "-"), "add", OUT)(X, Y)
        assert f"(raised by the language {toy_c.LANGUAGE.name!r}, which compiled add)" in caught.value.__notes__

    def test_a_platform_that_it_has_no_code_for(self, add):
        with pytest.raises(PlatformError, match="add runs on cpu, but is being lowered for cuda"):
            jax.jit(add).trace(X, Y).lower(lowering_platforms=("cuda",))

    def test_a_derivative(self, add):
        with pytest.raises(bridge.DifferentiationError, match="add has no derivative"):
            jax.grad(lambda x: add(x, Y).sum())(X)


def test_the_same_source_wrapped_again_is_the_same_function_and_compiled_once(add):
    assert c_kernel(ADD, "add", OUT) is add
    add(X, Y)
    entries = len(CPU)
    c_kernel(ADD, "add", OUT, vmap_method="sequential")(X, Y)
    assert len(CPU) == entries


def test_two_sources_of_one_name_do_not_mix(add):
    subtract = c_kernel(ADD.replace("+ y", "- y"), "add", OUT)
    assert subtract is not add
    for _ in range(2):
        np.testing.assert_array_equal(subtract(X, Y), X - Y)
        np.testing.assert_array_equal(add(X, Y), X + Y)


def test_a_backend_of_an_operator():
    op = XLACustomKernel("add", outs=lambda x, y: Spec(x.shape, x.dtype))
    op.def_kernel(toy_c.LANGUAGE.name, "cpu", lambda outs: c_kernel(ADD, "add", outs[0]))
    op.def_jnp_kernel(lambda outs: lambda x, y: x - y)
    assert op.defaults["cpu"] == "c"
    np.testing.assert_array_equal(op(X, Y), X + Y)
    np.testing.assert_array_equal(op(X, Y, backend="jnp"), X - Y)
    np.testing.assert_array_equal(jax.vmap(op, (0, None))(BATCH, Y), BATCH + Y)


def test_debug_mode_finds_an_element_that_is_not_written():
    forgetful = c_kernel(FORGETFUL, "forgetful", OUT)
    forgetful(X)
    missing = "forgetful did not write 1 of 6 elements of its output 0"
    with bridge.debug_mode(), pytest.raises(jax.errors.JaxRuntimeError, match=missing):
        jax.block_until_ready(forgetful(X))


def test_release_drops_what_nothing_uses():
    kept = c_kernel(ADD, "add", Spec((3,), np.float32))
    kept(X[:3], Y[:3])
    dropped = c_kernel(ADD.replace("x[i] + y[i]", "x[i] - y[i]"), "add", Spec((3,), np.float32))
    np.testing.assert_array_equal(dropped(X[:3], Y[:3]), X[:3] - Y[:3])
    before = len(DEFINITIONS)
    del dropped
    jax.clear_caches()
    assert bridge.release() >= 1
    assert len(DEFINITIONS) < before
    np.testing.assert_array_equal(kept(X[:3], Y[:3]), X[:3] + Y[:3])


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
