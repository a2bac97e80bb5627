"""native_kernel: C functions of any compiler, in every form that users have them in, under JAX's transformations."""

import ctypes
from concurrent.futures import ThreadPoolExecutor

import jax
import jax.export
import jax.numpy as jnp
import numba
import numpy as np
import pytest
from scipy.linalg import cython_blas

from bridge import SignatureError, export_checks, native_kernel
from suites.unit.bridge.c_libraries import compiled
from suites.unit.bridge.kernels import like
from suites.unit.processes import output

Spec = jax.ShapeDtypeStruct
X = jnp.arange(12, dtype=jnp.float32).reshape(3, 4)

SOURCE = """
#include <stdbool.h>
#include <stdint.h>
int scale(const float *x, int n, float factor, float *out, int limit) {
    if (n > limit) return n;
    for (int i = 0; i < n; i++) out[i] = factor * x[i];
    return 0;
}
void each_kind(int8_t a, uint8_t b, int16_t c, uint16_t d, int32_t e, uint32_t f, int64_t g, uint64_t h, bool i,
               int8_t j, float k, double l, const int16_t *m, const double *n, const char *o, double *out) {
    double values[] = {a, b, c, d, e, f, g, h, i, j, k, l, *m, *n, o[0], o[1]};
    for (int at = 0; at < 16; at++) out[at] = values[at];
}
"""


@numba.cfunc(numba.types.void(numba.types.CPointer(numba.float32), numba.int64, numba.types.CPointer(numba.float32)))
def triple(x, n, out):
    for i in range(n):
        out[i] = 3 * x[i]


def over_all(x, out):
    return x, x.size, out


def capsule():
    new = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
    return new(("PyCapsule_New", ctypes.pythonapi))(triple.address, b"void (float *, int64_t, float *)", None)


def of_cffi():
    ffi = pytest.importorskip("cffi", reason="cffi is not installed").FFI()
    return ffi.cast("void (*)(float *, int64_t, float *)", triple.address)


FORMS = {
    "numba.cfunc": lambda: triple,
    "ctypes": lambda: triple.ctypes,
    "address": lambda: triple.address,
    "PyCapsule": capsule,
    "cffi": of_cffi,
}


@pytest.mark.parametrize("form", FORMS)
def test_each_form_of_a_function_runs_natively_alone_and_in_batches(form):
    call = native_kernel(FORMS[form](), like, over_all)
    np.testing.assert_array_equal(call(X[0]), 3 * X[0])
    np.testing.assert_array_equal(jax.jit(jax.vmap(call, 1))(X), 3 * X.T)
    assert jax.jit(jax.vmap(jax.vmap(call))).lower(X[None]).as_text().count("@bridge_cpu(") == 1
    assert jax.vmap(call)(X[:0]).shape == (0, 4)
    assert native_kernel(triple, like, over_all) is native_kernel(triple, like, over_all)


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    return compiled(SOURCE, tmp_path_factory.mktemp("native") / "kernels.so")


def scale_of(library, **options):
    function = ctypes.CDLL(str(library)).scale
    function.argtypes = (ctypes.c_void_p, ctypes.c_int, ctypes.c_float, ctypes.POINTER(ctypes.c_float), ctypes.c_int)
    return native_kernel(function, like, lambda x, out: (x, x.shape[-1], 2.5, out, 4), status=True, **options)


def test_a_status_other_than_0_is_the_error_of_that_call_alone(library):
    scale = scale_of(library)
    np.testing.assert_array_equal(jax.vmap(scale)(X), 2.5 * X)
    for call in (scale, jax.vmap(scale)):
        with pytest.raises(jax.errors.JaxRuntimeError, match=r"scale returned the status 5\b"):
            jax.block_until_ready(call(jnp.ones((2, 5))))
    with ThreadPoolExecutor(8) as threads:
        results = [*threads.map(lambda at: scale(X[0] + at), range(8))]
    np.testing.assert_array_equal(results, 2.5 * (X[0] + np.arange(8)[:, None]))


@pytest.mark.parametrize("stated", [False, True])
def test_each_kind_of_number_arrives(library, x64, stated):
    """More than a processor has registers for, so that some are passed on the stack."""
    function = ctypes.CDLL(str(library)).each_kind
    pointers = [ctypes.POINTER(ctypes.c_int16), ctypes.POINTER(ctypes.c_double), ctypes.c_char_p, ctypes.c_void_p]
    types = [getattr(ctypes, f"c_{u}int{bits}") for bits in (8, 16, 32, 64) for u in ("", "u")]
    types += [ctypes.c_bool, ctypes.c_int8, ctypes.c_float, ctypes.c_double, *pointers]
    values = [-100, 200, -30000, 60000, -(2**31), 2**32 - 1, -(2**53), 2**53, True, -1, 0.1, 0.1, -7, 0.7]
    dtypes = [np.dtype(each).type for each in types[:12]]
    if stated:
        function.argtypes = types
    typed = [*values[:12]] if stated else [dtype(value) for dtype, value in zip(dtypes, values, strict=False)]

    def arguments(small, real, out):
        last = values[12:] if stated else (small, real)
        return *typed, *last, b"ab", out

    call = native_kernel(function, Spec((16,), np.float64), arguments)
    got = call(jnp.int16(values[12]), jnp.float64(values[13]))
    assert list(got) == [*values[:10], np.float32(0.1), *values[11:], ord("a"), ord("b")]


MEMCPY = ctypes.CDLL(None).memcpy
COPIES = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)


def test_a_symbolic_extent_is_refused():
    vector = Spec(jax.export.symbolic_shape("n"), np.float32)
    with pytest.raises(SignatureError, match=r"^triple: float32\[n\] has a symbolic shape"):
        jax.export.export(native_kernel(triple, like, over_all), disabled_checks=export_checks())(vector)


def test_a_size_that_its_type_cannot_hold_is_an_error():
    call = native_kernel(MEMCPY, like, lambda x, out: (out, x, x.nbytes), argtypes=(*COPIES[:2], ctypes.c_int8))
    with pytest.raises(SignatureError, match=r"item 2 is np\.int64\(200\) of type int64, but argtypes states"):
        call(jnp.ones(50))


DOUBLES, INTEGER = ctypes.POINTER(ctypes.c_double), ctypes.POINTER(ctypes.c_int)
BLAS = cython_blas.__pyx_capi__


def axpy(**options):
    return native_kernel(
        BLAS["daxpy"],
        lambda x, y: like(y),
        lambda x, y, out: (x.size, 0.5, x, 1, out, 1),
        argtypes=(INTEGER, DOUBLES, DOUBLES, INTEGER, DOUBLES, INTEGER),
        input_output_aliases={1: 0},
        **options,
    )


@pytest.mark.parametrize("method", [None, "sequential"])
def test_a_function_of_blas_updates_an_input_in_place(x64, method):
    x, y = jnp.arange(4.0), jnp.arange(12.0).reshape(3, 4)
    np.testing.assert_array_equal(jax.vmap(axpy(vmap_method=method), (None, 0))(x, y), y + 0.5 * x)
    np.testing.assert_array_equal(y, jnp.arange(12.0).reshape(3, 4))
    (steps,) = jax.lax.scan(lambda c, _: ((axpy()(x, c[0]),), None), (y[0],), length=10)[0]
    np.testing.assert_array_equal(steps, y[0] + 5 * x)


OTHER_PROCESS = """
import sys, pathlib, jax, numpy as np, bridge
jax.config.update("jax_enable_x64", True)
program = jax.export.deserialize(pathlib.Path(sys.argv[1]).read_bytes())
try:
    jax.block_until_ready(program.call(np.ones(2), np.ones(2)))
except jax.errors.JaxRuntimeError as error:
    print(error)
from suites.unit.bridge import test_native
keep = test_native.axpy()
keep(np.ones(2), np.ones(2))
print(program.call(np.ones(2), np.ones(2)))
"""


def test_a_program_finds_the_function_by_its_library_in_another_process(x64, tmp_path):
    vector = Spec((2,), np.float64)
    program = jax.export.export(axpy(), platforms=["cpu"], disabled_checks=export_checks())(vector, vector)
    (tmp_path / "program").write_bytes(program.serialize())
    said = output("-c", OTHER_PROCESS, tmp_path / "program")
    assert "native_function" in said
    assert said.endswith("[1.5 1.5]")


def test_a_function_in_memory_alone_cannot_be_exported():
    call = native_kernel(triple, like, over_all)
    with pytest.raises(Exception, match=r"^triple cannot be exported: its machine code is in no file\. Load it from"):
        jax.export.export(call, platforms=["cpu"], disabled_checks=export_checks())(like(X))
