"""native_kernel on CUDA: what its C function is called with, shown on the CPU, and on a GPU a function that copies."""

import ctypes

import jax
import jax.export
import jax.numpy as jnp
import numba
import numpy as np
import pytest

from bridge import STREAM, native_kernel
from bridge.ffi.kernel_call import bind
from bridge.ffi.native.abi import API, BUFFER, FRAME, ORDINAL
from bridge.ffi.native.abi import STREAM as STREAM_ARGS
from bridge.ffi.native.addresses import Arrays
from bridge.ffi.plans import host
from bridge.ffi.target import Target
from suites.unit.bridge.c_libraries import compiled
from suites.unit.bridge.entries import call_in, call_of
from suites.unit.bridge.kernels import exported, like
from suites.unit.bridge.test_cuda_raw import PLATFORM, gpu

Spec = jax.ShapeDtypeStruct
X = jnp.arange(12, dtype=jnp.float32).reshape(3, 4)
ON_CPU = Target("bridge_test_stream", "cpu", lambda: host.make_execute(on_stream=False))

SOURCE = """
long calls, streams[64];
int triple(void *stream, const float *x, long n, float *out) {
    if (n > 4) return (int)n;
    streams[calls++ % 64] = (long)stream;
    for (long i = 0; i < n; i++) out[i] = 3 * x[i];
    return 0;
}
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    return ctypes.CDLL(str(compiled(SOURCE, tmp_path_factory.mktemp("native") / "kernels.so")))


def triple_of(library, **options):
    return native_kernel(
        library.triple, like, lambda x, out: (STREAM, x, x.size, out), status=True, platform="cuda", **options
    )


def test_the_function_is_called_once_for_each_element_of_a_batch(library):
    """As JAX would call it on a GPU whose only stream is 0."""
    plan = call_in(triple_of(library), Spec((4,), np.float32)).compiled("cuda").load()
    vectors, x = (((4,), np.dtype(np.float32)),), np.ones((2, 4, 3), np.float32)
    call, count = call_of(ON_CPU, plan, vectors, vectors), ctypes.c_long.in_dll(library, "calls")
    count.value = 0
    with jax.default_device(jax.devices("cpu")[0]):
        np.testing.assert_array_equal(jax.vmap(jax.vmap(lambda x: bind(call, x)[0], 1, 1))(x), 3 * x)
    assert count.value == 6


def run_on_stream(plan, inputs, out, stream, ordinal=1):
    """Runs a plan on a call frame made here, with an API that answers as XLA does on a GPU; all arrays are vectors."""

    @ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)
    def stream_get(args):
        ctypes.c_int64.from_address(args + 8 * STREAM_ARGS.STREAM).value = stream
        return 0

    @ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)
    def ordinal_get(args):
        ctypes.c_int32.from_address(args + ORDINAL.ORDINAL_BYTE).value = ordinal
        return 0

    arrays, dims = [*inputs, out], np.array([out.size])
    api, frame, pointers = np.zeros(64, np.int64), np.zeros(64, np.int64), np.zeros(len(arrays), np.int64)
    api[API.STREAM_GET], api[API.DEVICE_ORDINAL_GET] = (
        ctypes.cast(each, ctypes.c_void_p).value for each in (stream_get, ordinal_get)
    )
    buffers = np.zeros((len(arrays), 16), np.int64)
    for at, array in enumerate(arrays):
        buffers[at, [BUFFER.DATA, BUFFER.RANK, BUFFER.DIMS]] = array.ctypes.data, 1, dims.ctypes.data
        pointers[at] = buffers[at].ctypes.data
    frame[[FRAME.API, FRAME.ARG_COUNT, FRAME.RET_COUNT]] = api.ctypes.data, len(inputs), 1
    frame[[FRAME.ARGS, FRAME.RETS]] = pointers.ctypes.data, pointers[-1:].ctypes.data
    execute = host.make_execute(on_stream=True)
    run = numba.cfunc("int64(int64, int64)", error_model="numpy")(lambda frame, plan: execute(frame, plan))
    assert run.ctypes(frame.ctypes.data, plan.keep(Arrays("kernel", [(1, 4)] * len(inputs), [(1, 4)]))) == 0


def test_it_gets_the_stream_of_xla(library):
    x, out = np.arange(4, dtype=np.float32), np.zeros(4, np.float32)
    ctypes.c_long.in_dll(library, "calls").value = 0
    run_on_stream(call_in(triple_of(library), x).compiled("cuda").load(), [x], out, stream=0x1234)
    np.testing.assert_array_equal(out, 3 * x)
    assert (ctypes.c_long * 64).in_dll(library, "streams")[0] == 0x1234


def test_only_what_the_user_calls_capturable_goes_into_graphs(library):
    targets = [call_in(triple_of(library, capturable=each), X).describe("cuda")[0] for each in (False, True)]
    assert [bool(each._traits) for each in targets] == [False, True]


def test_a_function_of_a_library_is_exported(library):
    assert "bridge_cuda_host" in exported(triple_of(library), like(X), platform="cuda").mlir_module()


def copy(**options):
    function = ctypes.CDLL("libcuda.so.1").cuMemcpyDtoDAsync_v2
    arguments = lambda x, out: (out, x, x.nbytes, STREAM)  # noqa: E731
    return native_kernel(function, like, arguments, status=True, platform="cuda", **options)


@gpu
@pytest.mark.parametrize("capturable", [False, True])
def test_on_a_gpu_a_function_works_in_the_order_of_the_stream(capturable):
    function = copy(capturable=capturable)

    def steps(x):
        return jax.lax.fori_loop(0, 50, lambda i, x: function(x + 1) * 2, x)

    expected = jax.jit(lambda x: jax.lax.fori_loop(0, 50, lambda i, x: (x + 1) * 2, x))(X)
    np.testing.assert_array_equal(jax.jit(steps)(X), expected)
    np.testing.assert_array_equal(jax.jit(jax.vmap(steps))(X), expected)
    np.testing.assert_array_equal(copy(vmap_method="sequential")(X), X)


@gpu
def test_on_a_gpu_a_status_is_an_error():
    assert PLATFORM == "cuda"
    bad = native_kernel(
        ctypes.CDLL("libcuda.so.1").cuMemcpyDtoDAsync_v2, like, lambda x, out: (out, np.uint64(8), x.nbytes, STREAM),
        status=True, platform="cuda",
    )  # fmt: skip
    with pytest.raises(jax.errors.JaxRuntimeError, match="returned the status 1"):
        jax.block_until_ready(bad(X))
