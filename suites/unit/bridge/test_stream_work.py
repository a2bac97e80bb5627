"""Fills that CUDA makes before a kernel runs, tested on the CPU with stand-ins for its functions."""

import ctypes

import jax
import jax.numpy as jnp
import numba
import numpy as np
import pytest
from jax import ShapeDtypeStruct as Spec

from bridge import numba_kernel
from bridge.ffi.native.addresses import c_function, c_string
from bridge.ffi.plans import device, poison
from bridge.ffi.target import CPU, key_of
from suites.unit.bridge.entries import call_in

X = np.arange(6, dtype=np.float32)


@numba.njit
def increment(x, out):
    for i in range(out.size - 2):
        out[i] = x[i] + 1


class StandIn:
    """A target on the CPU that works on memory through a recorded function, before it runs a kernel.

    Attributes:
        noted: Value, bytes and stream of each call of the function.
        status: What the function answers.
    """

    def __init__(self, name, value, do, before):
        self.noted, self.status = [], 0
        kind = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_uint64, value, ctypes.c_size_t, ctypes.c_void_p)

        def record(target, value, size, stream):
            self.noted.append((value, size, stream))
            do(target, value, size)
            return self.status

        self._function = kind(record)
        self._describe = device.DESCRIBE(lambda status, name: c_string(f"{ctypes.string_at(name).decode()}: {status}"))
        addresses = c_function(self._function), c_function(self._describe)
        self.target = CPU.variant(f"_test_{name}", lambda inner: before(inner, *addresses))
        self.target.install()

    def run(self, x, status=0, shares=False, **attributes):
        """Runs the kernel on x, in memory that XLA makes the output share with x or not."""
        self.noted.clear()
        self.status = status
        call = call_in(numba_kernel(increment, Spec(X.shape, X.dtype), input_output_aliases={0: 0}), X)
        call.entry("cpu")
        key = np.int64(key_of(call.describe("cpu")[1]))
        aliases = {0: 0} if shares else {}
        function = jax.ffi.ffi_call(self.target.name, Spec(x.shape, x.dtype), input_output_aliases=aliases)
        return np.asarray(jax.jit(lambda x: function(x, key=key, **attributes))(x))


@pytest.fixture(scope="module")
def memset():
    def before(inner, *addresses):
        return poison.fill_before(inner, poison.stream_fill(*addresses), on_stream=False)

    return StandIn("fill", ctypes.c_ubyte, ctypes.memset, before)


FILLS = {"fills": poison.fills([Spec(X.shape, X.dtype)], (), 1)}


def test_an_output_is_filled_before_the_kernel_runs(memset):
    result = memset.run(X, **FILLS)
    assert memset.noted == [(0x5A, X.nbytes, None)]
    np.testing.assert_array_equal(result[:-2], X[:-2] + 1)
    assert (result[-2:].view(np.uint8) == 0x5A).all()


def test_bytes_of_each_output():
    outputs = [Spec((2, 3), np.float64), Spec((4,), bool), Spec((5,), np.int8), Spec((3, 5), jnp.int4)]
    assert poison.fills(outputs, {2}, 1).tolist() == [48, 0x5A, 4, 1, 0, 0x5A, 8, 0x55]  # XLA packs int4


def test_a_refusal_of_cuda_is_an_error(memset):
    with pytest.raises(jax.errors.JaxRuntimeError, match="the fill of an output: 7"):
        memset.run(X, status=7, **FILLS)
