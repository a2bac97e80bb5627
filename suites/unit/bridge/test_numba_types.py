"""numba_kernel: dtypes, ranks and containers of inputs and outputs, and the forms a kernel may have."""

import inspect

import jax
import jax.export
import jax.numpy as jnp
import numba
import numpy as np
import pytest

from bridge import DifferentiationError, KernelCompileError, export_checks, numba_kernel
from bridge.kernel.language import CPU_DTYPES
from suites.unit.bridge import kernels

Spec = jax.ShapeDtypeStruct


@numba.njit
def copy_each(x, out):
    for i in range(x.size):
        out[i] = x[i]


@pytest.mark.parametrize("dtype", [each for each in CPU_DTYPES if "float16" not in each])  # these: test_numba_half
def test_every_dtype_of_numba_passes_through_bit_for_bit(x64, dtype):
    bits = np.random.default_rng(0).bytes(960)
    x = np.frombuffer(bits, np.uint8) % 2 == 1 if dtype == "bool" else np.frombuffer(bits, dtype)
    out = numba_kernel(copy_each, Spec(x.shape, dtype))(x)
    assert out.dtype == dtype
    assert np.asarray(out).tobytes() == x.tobytes()


def test_results_have_the_container_of_outs():
    @numba.njit
    def split(x, positive, negative):
        for i in range(x.size):
            positive[i], negative[i] = max(x[i], 0), min(x[i], 0)

    x, spec = jnp.array([-1.0, 2.0]), Spec((2,), np.float32)
    assert isinstance(numba_kernel(kernels.double, spec)(x), jax.Array)
    assert len(numba_kernel(kernels.double, [spec])(x)) == 1
    for outs in ([spec, spec], (spec, spec), {"p": {"q": spec}, "n": [spec]}):
        result = numba_kernel(split, outs)(x)
        assert jax.tree.structure(result) == jax.tree.structure(outs)
        first, second = jax.tree.leaves(result)
        np.testing.assert_array_equal(first, [0, 2])
        np.testing.assert_array_equal(second, [-1, 0])


def test_arrays_in_another_memory_order_reach_the_kernel_row_major():
    @numba.njit
    def ravel(x, out):
        for i in range(x.shape[0]):
            for j in range(x.shape[1]):
                out[i * x.shape[1] + j] = x[i, j]

    x = jnp.arange(6.0).reshape(2, 3)
    wrapped = numba_kernel(ravel, Spec((6,), np.float32))
    np.testing.assert_array_equal(jax.jit(lambda x: wrapped(x.T))(x), np.asarray(x).T.ravel())
    np.testing.assert_array_equal(numba_kernel(ravel, x.ravel())(np.asfortranarray(x)), np.arange(6))


def test_explicit_signatures_bind_the_dtypes():
    @numba.njit(["void(float32[:], float32[:])", "void(int32[::1], int32[::1])"])
    def double(x, out):
        for i in range(x.size):
            out[i] = 2 * x[i]

    for dtype in (np.float32, np.int32):
        np.testing.assert_array_equal(numba_kernel(double, Spec((2,), dtype))(np.ones(2, dtype)), [2, 2])
    with pytest.raises(KernelCompileError, match=r"declared for \(array\(float32, 1d, A\).*called with \(array\(int8"):
        numba_kernel(double, Spec((2,), np.int8))(np.ones(2, np.int8))


def test_variadic_parameters_work():
    @numba.njit
    def count(*arrays):
        arrays[-1][0] = len(arrays)

    assert float(numba_kernel(count, Spec((1,), np.float32))(jnp.ones(1), jnp.ones(2))[0]) == 3


@pytest.mark.parametrize("name", ["my kernel", 'a"b', "<lambda>"])
def test_kernels_may_have_any_name_and_default_values(name):
    def kernel(x, out, scale=2.0):
        for i in range(x.size):
            out[i] = scale * x[i] + len(name)  # kernels of one content are one kernel

    kernel.__name__ = kernel.__qualname__ = name
    x, size = jnp.arange(4.0), len(name)
    call = jax.jit(numba_kernel(numba.njit(kernel), Spec((4,), np.float32)))
    exported = jax.export.export(call, platforms=["cpu"], disabled_checks=export_checks())(x)
    np.testing.assert_array_equal(jax.export.deserialize(exported.serialize()).call(x), 2 * x + size)
    np.testing.assert_array_equal(jax.vmap(call)(x[None])[0], 2 * x + size)


def test_a_wrapper_has_the_inputs_the_name_and_the_documentation_of_its_kernel():
    wrapped = numba_kernel(kernels.outer, [Spec((4,), np.float32)] * 2)
    assert list(inspect.signature(wrapped).parameters) == ["x", "y"]
    assert (wrapped.__name__, wrapped.__doc__) == ("outer", "Rank 1 and rank 0 in, rank 2 and rank 0 out.")


# Under every transformation of JAX.


X = jnp.arange(8.0)
double = numba_kernel(kernels.double, Spec((8,), np.float32))


def test_differentiation_without_a_rule_says_how_to_attach_one():
    for differentiate in (
        lambda: jax.jvp(double, (X,), (X,)),
        lambda: jax.jit(jax.grad(lambda x: jax.vmap(double)(jnp.stack([x, x])).sum()))(X),
        lambda: jax.linear_transpose(double, X)(X),
    ):
        with pytest.raises(DifferentiationError, match=r"double has no derivative.*jax\.custom_vjp"):
            differentiate()


def test_integer_results_have_the_derivative_zero():
    @numba.njit
    def whole(x, out):
        for i in range(out.size):
            out[i] = int(x[i])

    floor = numba_kernel(whole, Spec(X.shape, np.int32))
    np.testing.assert_array_equal(jax.grad(lambda x: (x * floor(x)).sum())(X + 0.5), X)
    assert jax.jvp(floor, (X,), (X,))[1].dtype == jax.dtypes.float0


@pytest.mark.parametrize("method", [None, "broadcast_all", "sequential", "sequential_unrolled"])
class TestVmap:
    def test_nested_with_every_mix_of_batched_operands(self, method):
        wrapped = numba_kernel(kernels.outer, [Spec((2, 2), np.float32), Spec((), np.float32)], vmap_method=method)
        x, y = jnp.arange(24.0).reshape(3, 4, 2), jnp.arange(5.0)

        def reference(x, y):
            matrix = jnp.outer(x, x) + y
            return [matrix, matrix.sum()]

        def nest(f):
            return jax.vmap(jax.vmap(jax.vmap(f, (0, None)), (1, None), out_axes=1), (None, 0), out_axes=-1)

        for got, expected in zip(nest(wrapped)(x, y), nest(reference)(x, y), strict=True):
            np.testing.assert_array_equal(got, expected)

    def test_of_aliased_inputs_batched_or_not(self, method):
        wrapped = numba_kernel(
            kernels.increment, Spec((8,), np.float32), vmap_method=method, input_output_aliases={0: 0}
        )
        xs = jnp.arange(24.0).reshape(3, 8)
        np.testing.assert_array_equal(jax.vmap(wrapped)(xs), xs + 1)
        np.testing.assert_array_equal(jax.vmap(jax.vmap(wrapped, None, axis_size=2), axis_size=3)(xs)[:, 1], xs + 1)
        np.testing.assert_array_equal(xs, jnp.arange(24.0).reshape(3, 8))
