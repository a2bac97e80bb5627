"""What CUDA does around a kernel in debug mode, tested on the CPU with stand-ins for its functions."""

import ctypes

import jax
import jax.numpy as jnp
import numba
import numpy as np
import pytest
from jax import ShapeDtypeStruct as Spec

from bridge import numba_kernel
from bridge.ffi import kernel_call
from bridge.ffi.cuda import driver
from bridge.ffi.native.addresses import c_function, c_string
from bridge.ffi.plans import device, poison
from bridge.ffi.target import CPU, CUDA, key_of
from suites.unit.bridge.entries import call_in

X = np.arange(6, dtype=np.float32)


@numba.njit
def increment(x, out):
    for i in range(out.size - 2):
        out[i] = x[i] + 1


class StandIn:
    """A target on the CPU that does what CUDA's target does in debug mode, with recorded functions.

    Attributes:
        noted: Value, bytes and stream of each fill.
        status: What a fill answers.
        waits: What each wait answers.
    """

    def __init__(self):
        self.noted, self.status, self.waits = [], 0, []
        set_memory = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_uint64, ctypes.c_ubyte, ctypes.c_size_t, ctypes.c_void_p)

        def record(target, value, size, stream):
            self.noted.append((value, size, stream))
            ctypes.memset(target, value, size)
            return self.status

        self._alive = (
            set_memory(record),
            device.DESCRIBE(lambda status, name: c_string(f"{ctypes.string_at(name).decode()}: {status}")),
            ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)(lambda stream: self.waits.pop(0)),
        )
        memset, describe, synchronize = map(c_function, self._alive)
        wait = poison.stream_wait(synchronize, c_function(driver._describe_fault))
        fill = poison.stream_fill(memset, describe)
        self.target = CPU.variant("_test_debug", lambda inner: poison.fill_before(inner, fill, wait, on_stream=False))
        self.target.install()

    def run(self, status=0, waits=(0, 0)):
        """Runs the kernel on X."""
        self.noted.clear()
        self.status, self.waits[:] = status, waits
        call = call_in(numba_kernel(increment, Spec(X.shape, X.dtype)), X)
        call.entry("cpu")
        about = {
            "key": np.int64(key_of(call.describe("cpu")[1])),
            "fills": poison.fills([Spec(X.shape, X.dtype)], (), 1),
        }
        return np.asarray(jax.jit(lambda x: jax.ffi.ffi_call(self.target.name, Spec(X.shape, X.dtype))(x, **about))(X))


@pytest.fixture(scope="module")
def cuda():
    return StandIn()


def test_an_output_is_filled_before_the_kernel_runs(cuda):
    result = cuda.run()
    assert cuda.noted == [(0x5A, X.nbytes, None)]
    np.testing.assert_array_equal(result[:-2], X[:-2] + 1)
    assert (result[-2:].view(np.uint8) == 0x5A).all()


def test_bytes_of_each_output():
    outputs = [Spec((2, 3), np.float64), Spec((4,), bool), Spec((5,), np.int8), Spec((3, 5), jnp.int4)]
    assert poison.fills(outputs, {2}, 1).tolist() == [48, 0x5A, 4, 1, 0, 0x5A, 8, 0x55]  # XLA packs int4


@pytest.mark.parametrize(
    ("waits", "message"),
    [
        (
            (0, 700),
            r"increment failed on the GPU: REASON: it reads or writes outside of its arrays\. compute-sanitizer",
        ),
        ((0, 716), r"increment failed on the GPU: REASON\. compute-sanitizer"),
        ((700,), r"the work before the kernel failed on the GPU: REASON"),
    ],
)
def test_a_kernel_that_fails_as_it_runs_is_named_and_no_other(cuda, monkeypatch, waits, message):
    monkeypatch.setattr(driver, "error_text", lambda status: "REASON")
    with pytest.raises(jax.errors.JaxRuntimeError, match=message):
        cuda.run(waits=waits)
    assert not cuda.waits


def test_xla_records_no_call_that_waits():
    assert [bool(each._traits) for each in (CUDA, kernel_call._poisoned(CUDA))] == [True, False]
