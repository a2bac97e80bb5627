"""tvm_ffi_kernel: functions of TVM-FFI on the CPU, and what they are given on CUDA."""

import ctypes

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bridge import tvm_ffi_kernel
from bridge.ffi.kernel_call import bind
from bridge.ffi.plans import host
from bridge.ffi.target import Target
from suites.unit.bridge.c_libraries import compiled
from suites.unit.bridge.entries import call_in, call_of
from suites.unit.bridge.kernels import exported, like
from suites.unit.bridge.test_cuda_raw import gpu
from suites.unit.bridge.test_native_stream import run_on_stream
from suites.vendors import adds as vendor_adds

tvm_ffi = pytest.importorskip("tvm_ffi", reason="apache-tvm-ffi is not installed")
PLATFORM = "cpu"  # the test for a GPU puts its arrays there
Spec = jax.ShapeDtypeStruct
X = jnp.arange(12, dtype=jnp.float32).reshape(3, 4)
ON_CPU = Target("bridge_test_tvm", "cpu", lambda: host.make_execute(on_stream=False))

SOURCE = """
#include <tvm/ffi/c_api.h>
#include <tvm/ffi/extra/c_env_api.h>
#include <dlpack/dlpack.h>
int64_t last_device, last_stream;
int __tvm_ffi_add_scaled(void* self, const TVMFFIAny* args, int32_t count, TVMFFIAny* result) {
    DLTensor *x = args[0].v_ptr, *y = args[1].v_ptr, *out = args[2].v_ptr;
    if (count != 4 || args[3].type_index != kTVMFFIFloat || x->ndim != 1 || x->shape[0] != y->shape[0]) {
        TVMFFIErrorSetRaisedFromCStr("ValueError", "x and y must have one length");
        return -1;
    }
    last_device = x->device.device_type;
    last_stream = (int64_t)TVMFFIEnvGetStream(x->device.device_type, x->device.device_id);
    for (int64_t i = 0; i < x->shape[0]; i++)
        ((float*)out->data)[i] = ((float*)x->data)[i] + args[3].v_float64 * ((float*)y->data)[i];
    return 0;
}
int __tvm_ffi_describe(void* self, const TVMFFIAny* args, int32_t count, TVMFFIAny* result) {
    DLTensor *x = args[0].v_ptr;
    int64_t *out = ((DLTensor*)args[count - 1].v_ptr)->data;
    int64_t found[] = {x->device.device_type, x->ndim, x->dtype.code, x->dtype.bits, x->dtype.lanes, x->shape[0],
        x->shape[1], x->strides[0], x->strides[1], args[1].type_index, args[1].v_int64, args[2].type_index,
        args[2].v_int64, args[3].type_index, args[3].v_int64, args[4].type_index};
    for (int i = 0; i < 16; i++) out[i] = found[i];
    return 0;
}
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    include = [f"-I{each}" for each in tvm_ffi.libinfo.include_paths()]
    return compiled(SOURCE, tmp_path_factory.mktemp("tvm") / "kernels.so", *include)


def add_scaled(library, **options):
    function = tvm_ffi.load_module(str(library)).add_scaled
    return tvm_ffi_kernel(function, like, lambda x, y, out: (x, y, out, 0.5), **options)


def test_a_function_runs_natively_alone_and_in_batches(library):
    add = add_scaled(library)
    np.testing.assert_array_equal(add(X[0], X[1]), X[0] + 0.5 * X[1])
    np.testing.assert_array_equal(jax.jit(jax.vmap(add, (0, None)))(X, X[1]), X + 0.5 * X[1])
    np.testing.assert_array_equal(jax.vmap(add, 1, 1)(X, X), 1.5 * X)
    symbol = ctypes.CDLL(str(library)).__getattr__("__tvm_ffi_add_scaled")
    by_symbol = tvm_ffi_kernel(symbol, like, lambda x, y, out: (x, y, out, 0.5))
    np.testing.assert_array_equal(by_symbol(X[0], X[0]), 1.5 * X[0])


def test_its_error_is_the_error_of_the_call(library):
    add = tvm_ffi_kernel(tvm_ffi.load_module(str(library)).add_scaled, like)
    for _ in range(2):
        with pytest.raises(jax.errors.JaxRuntimeError, match="ValueError: x and y must have one length"):
            jax.block_until_ready(add(X[0], X[0]))


def test_each_kind_of_argument_arrives(library):
    describe = tvm_ffi_kernel(
        tvm_ffi.load_module(str(library)).describe,
        lambda x: Spec((16,), np.int64),
        lambda x, out: (x, -7, np.bool_(True), 0.5, None, out),
    )
    with jax.enable_x64(True):
        found, of_complex = (describe(jnp.ones((2, 3), dtype)) for dtype in (jnp.bfloat16, jnp.complex64))
    half = int(np.float64(0.5).view(np.int64))
    assert of_complex[2:5].tolist() == [5, 64, 1]
    assert np.asarray(found).tolist() == [1, 2, 4, 16, 1, 2, 3, 3, 1, 1, -7, 2, 1, 3, half, 0]


def test_on_cuda_tensors_are_on_the_device_and_the_environment_has_the_stream(library):
    call = call_in(add_scaled(library, platform="cuda"), X[0], X[0])
    plan = call.compiled("cuda").load()
    vectors = (((4,), np.dtype(np.float32)),)
    run = lambda x: bind(call_of(ON_CPU, plan, 2 * vectors, vectors), x, x)[0]  # noqa: E731
    np.testing.assert_array_equal(jax.jit(jax.vmap(run))(X), 1.5 * X)
    x, out, loaded = np.arange(4, dtype=np.float32), np.zeros(4, np.float32), ctypes.CDLL(str(library))
    for stream in (0x1234, 0x5678):
        run_on_stream(plan, [x, x], out, stream)
        np.testing.assert_array_equal(out, 1.5 * x)
        assert [ctypes.c_int64.in_dll(loaded, name).value for name in ("last_device", "last_stream")] == [2, stream]
    assert call.describe("cuda")[0].name == "bridge_cuda_host"


def cute_add(size):
    pytest.importorskip("cutlass.jax", reason="CuTe DSL is not installed", exc_type=ImportError)
    vector = Spec((size,), np.float32)
    return tvm_ffi_kernel(vendor_adds.tvm_function("float32"), vector, platform="cuda"), vector


@gpu
def test_a_host_function_of_cute_dsl_launches_on_the_stream():
    x = jax.device_put(np.arange(3000, dtype=np.float32).reshape(3, 1000), jax.devices("cuda")[0])
    add, _ = cute_add(1000)
    np.testing.assert_array_equal(add(x[0], x[1]), x[0] + x[1])
    np.testing.assert_array_equal(jax.jit(jax.vmap(add))(x, x + 1), 2 * x + 1)
    np.testing.assert_array_equal(jax.lax.fori_loop(0, 5, lambda _, z: add(z, z), x[0]), 32 * x[0])


def test_only_a_function_of_a_library_can_be_exported(library):
    vector = Spec((4,), np.float32)
    with pytest.raises(Exception, match=r"cannot be exported: it is an object of this process\. Pass the function"):
        exported(add_scaled(library, platform="cuda"), vector, vector, platform="cuda")
    symbol = ctypes.CDLL(str(library)).__getattr__("__tvm_ffi_add_scaled")
    call = tvm_ffi_kernel(symbol, like, lambda x, y, out: (x, y, out, 0.5), platform="cuda", capturable=True)
    assert "bridge_cuda_host_graph" in exported(call, vector, vector, platform="cuda").mlir_module()
