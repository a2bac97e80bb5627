"""Kernels that take a JAX array from their closure or globals: one error that names the array, and the cure."""

import types

import jax
import jax.numpy as jnp
import numba
import numpy as np
import pytest

from bridge import KernelCompileError, jax_kernel, numba_kernel
from bridge.source.captured import captured_arrays
from suites.backends.warp_blocks import wp
from suites.unit.bridge import warp_kernels

Spec = jax.ShapeDtypeStruct
X = jnp.arange(3.0)
OUT = Spec((3,), np.float32)
WEIGHTS = jnp.arange(1.0, 4.0)
SCALAR = jnp.float32(2)
HALVES = jnp.ones(3, jnp.bfloat16)
PARAMS = {"layer": (WEIGHTS, 1)}
settings = types.ModuleType("settings")
settings.WEIGHTS = WEIGHTS


@numba.njit
def of_globals(x, out):
    for i in range(x.size):
        out[i] = x[i] * WEIGHTS[i]


@numba.njit
def of_a_shape(x, out):
    for i in range(WEIGHTS.shape[0]):
        out[i] = x[i]


@numba.njit
def of_a_scalar(x, out):
    out[:] = SCALAR * x


@numba.njit
def of_halves(x, out):
    out[:] = HALVES[0] * x


@numba.njit
def of_a_container(x, out):
    out[:] = x * PARAMS["layer"][0]


@numba.njit
def of_a_module(x, out):
    out[:] = x * settings.WEIGHTS


@numba.njit
def weighted(value, i):
    return value * WEIGHTS[i]


@numba.njit
def of_a_helper(x, out):
    for i in range(x.size):
        out[i] = weighted(x[i], i)


@numba.njit
def of_a_default(x, out, weights=WEIGHTS):
    for i in range(x.size):
        out[i] = weights[i]


@numba.njit(parallel=True)
def of_parallel(x, out):
    for i in numba.prange(x.size):
        out[i] = x[i] * WEIGHTS[i]


KERNELS = {
    of_globals: r"uses the JAX array 'WEIGHTS' \(float32\[3\]\) from its globals \({}\)",
    of_a_shape: r"uses the JAX array 'WEIGHTS'",
    of_a_scalar: r"uses the JAX array 'SCALAR' \(float32\[\]\)",
    of_halves: r"uses the JAX array 'HALVES' \(bfloat16\[3\]\)",
    of_a_container: r"uses 'PARAMS', a dict with a JAX array \(float32\[3\]\), from its globals",
    of_a_module: r"uses the JAX array 'settings\.WEIGHTS'",
    of_a_helper: r"calls weighted, which uses the JAX array 'WEIGHTS' .*\. Make it a parameter of weighted and",
    of_a_default: r"uses the JAX array 'weights' \(float32\[3\]\) from its defaults",
    of_parallel: r"uses the JAX array 'WEIGHTS'",
}
PLACE = r".*test_captured\.py:\d+"


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.py_func.__name__)
def test_a_kernel_names_the_array(kernel):
    name = kernel.py_func.__name__
    with pytest.raises(KernelCompileError, match=rf"{name} \({PLACE}\) {KERNELS[kernel].format(PLACE)}") as caught:
        numba_kernel(kernel, OUT)(X)
    assert "pass it in the call" in str(caught.value)
    assert caught.value.__suppress_context__
    assert caught.value.args[0].count("\n") == 0


def test_the_line_is_that_of_the_use():
    (found,) = captured_arrays(of_globals.py_func)
    assert found.line == of_globals.py_func.__code__.co_firstlineno + 3


def test_a_traced_array_of_the_surrounding_function():
    def scale(weights):
        @numba.njit
        def kernel(x, out):
            for i in range(x.size):
                out[i] = x[i] * weights[i]

        return numba_kernel(kernel, OUT)(X)

    with pytest.raises(KernelCompileError, match=r"uses the traced JAX array 'weights' .* from its closure"):
        jax.jit(scale)(WEIGHTS)


def test_a_nested_function_of_the_kernel():
    @numba.njit
    def kernel(x, out):
        def inner(i):
            return WEIGHTS[i]

        for i in range(x.size):
            out[i] = inner(i)

    with pytest.raises(KernelCompileError, match=r"kernel .* uses the JAX array 'WEIGHTS'"):
        numba_kernel(kernel, OUT)(X)


def test_what_is_right_is_left_alone():
    constants, number = np.arange(3, dtype=np.float32), 2.0

    @numba.njit
    def kernel(x, out):
        for i in range(x.size):
            out[i] = number * constants[i]

    assert not list(captured_arrays(kernel.py_func))
    np.testing.assert_array_equal(numba_kernel(kernel, OUT)(X), 2 * constants)


def test_another_error_of_a_kernel_without_such_arrays_is_told_as_before():
    @numba.njit
    def kernel(x, out):
        out[0] = x.WEIGHTS

    with pytest.raises(KernelCompileError, match="Numba cannot compile kernel"):
        numba_kernel(kernel, OUT)(X)


class TestWarp:
    def test_of_globals(self):
        @warp_kernels.forward_only
        def kernel(x: warp_kernels.VECTOR, out: warp_kernels.VECTOR):
            i = wp.tid()
            out[i] = x[i] * WEIGHTS[i]

        with pytest.raises(KernelCompileError, match=rf"kernel \({PLACE}\) uses the JAX array 'WEIGHTS'"):
            jax_kernel(kernel)(X)

    def test_of_a_function_that_it_calls(self):
        @wp.func
        def weigh(value: float):
            return value * SCALAR

        @warp_kernels.forward_only
        def kernel(x: warp_kernels.VECTOR, out: warp_kernels.VECTOR):
            i = wp.tid()
            out[i] = weigh(x[i])

        with pytest.raises(KernelCompileError, match=r"kernel .* calls weigh, which uses the JAX array 'SCALAR'"):
            jax_kernel(kernel)(X)

    def test_traced(self):
        def scale(weights):
            @warp_kernels.forward_only
            def kernel(x: warp_kernels.VECTOR, out: warp_kernels.VECTOR):
                i = wp.tid()
                out[i] = x[i] * weights[i]

            return jax_kernel(kernel)(X)

        with pytest.raises(KernelCompileError, match="uses the traced JAX array 'weights'"):
            jax.jit(scale)(WEIGHTS)

    def test_what_warp_evaluates_beforehand_is_right(self):
        @warp_kernels.forward_only
        def kernel(x: warp_kernels.VECTOR, out: warp_kernels.VECTOR):
            i = wp.tid()
            out[i] = x[i] * wp.static(float(SCALAR))

        np.testing.assert_array_equal(jax_kernel(kernel)(X)[0], 2 * X)


class TestNumbaCuda:
    @pytest.fixture(autouse=True)
    def cuda(self, monkeypatch):
        pytest.importorskip("numba.cuda", reason="numba-cuda is not installed")
        import sys

        for module in ("bridge.languages.numba_cuda.cuda_jit", "bridge.languages.numba_cuda.callables"):
            monkeypatch.setattr(sys.modules[module], "require_cuda", lambda: None)

    def test_a_kernel(self, monkeypatch):
        from bridge.languages.numba_cuda.cuda_compilation import compile_kernel
        from bridge.languages.numba_cuda.cuda_jit import define
        from bridge.signature.array_types import ArrayType

        @numba.cuda.jit
        def kernel(x, out):
            out[0] = x[0] * WEIGHTS[0]

        def refuse(*args):
            raise RuntimeError("cannot determine Numba type")  # as on a machine with a GPU, without which none compiles

        monkeypatch.setattr(type(kernel), "compile", refuse)
        with pytest.raises(KernelCompileError, match=r"kernel .* uses the JAX array 'WEIGHTS' \(float32\[3\]\)"):
            compile_kernel(define(kernel), [ArrayType("float32", (3,), False), ArrayType("float32", (3,), True)])

    def test_a_function_that_launches_such_a_kernel(self):
        from bridge import numba_cuda_callable

        @numba.cuda.jit
        def kernel(x, out):
            out[0] = x[0] * WEIGHTS[0]

        def launch(x, out, stream):
            kernel[1, 1, stream](x, out)

        with pytest.raises(KernelCompileError, match=r"launch .* calls kernel, which uses the JAX array 'WEIGHTS'"):
            numba_cuda_callable(launch, OUT)(X)

    def test_a_function_that_passes_on_a_traced_array(self):
        from bridge import numba_cuda_callable

        def scale(weights):
            def launch(x, out, stream):
                print(weights)

            return numba_cuda_callable(launch, OUT)(X)

        with pytest.raises(KernelCompileError, match=r"launch .* uses the traced JAX array 'weights'"):
            jax.jit(scale)(WEIGHTS)
