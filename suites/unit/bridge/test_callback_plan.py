"""Callback plans: what a Python function is told of a call, tested on the CPU, where there is no stream."""

import ctypes

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bridge import DeviceMemoryError
from bridge.ffi.kernel_call import Call, bind
from bridge.ffi.native.addresses import c_string
from bridge.ffi.native.exception_text import describe_to_c_string, error_code
from bridge.ffi.plans import callback
from bridge.ffi.target import Target
from suites.unit.bridge.entries import code_of

TARGET = Target("bridge_test_callback", "cpu", lambda: callback.make_execute(on_stream=False))


def calling(function, inputs, outputs):
    """The code of an entry that calls ``function(identity, words)``; sizes are pairs of rank and item bytes."""
    native = callback.FUNCTION(function)
    address = ctypes.cast(native, ctypes.c_void_p).value
    return code_of(TARGET, callback.CallbackPlan("function", address, 42, inputs, outputs), native)


def doubling(size, calls):
    def function(identity, words_address):
        stream, ordinal, source, result = (ctypes.c_int64 * 4).from_address(words_address)
        calls.append((identity, stream, ordinal))
        items = (ctypes.c_float * size).from_address(source)
        (ctypes.c_float * size).from_address(result)[:] = [2 * item for item in items]
        return 0

    return function


def test_the_function_gets_identity_stream_device_and_addresses():
    calls = []
    code = calling(doubling(4, calls), [(1, 4)], [(1, 4)])
    call = Call("function", code, (((4,), np.dtype(np.float32)),))
    (result,) = jax.jit(lambda x: bind(call, x))(jnp.arange(4.0))
    np.testing.assert_array_equal(result, [0, 2, 4, 6])
    assert calls == [(42, 0, 0)]


def test_a_batch_calls_it_for_each_element():
    calls = []
    code = calling(doubling(4, calls), [(1, 4)], [(1, 4)])
    call = Call("function", code, (((4,), np.dtype(np.float32)),))
    xs = jnp.arange(24.0).reshape(2, 3, 4)
    nested = jax.vmap(jax.vmap(lambda x: bind(call, x)[0]), in_axes=1)
    np.testing.assert_array_equal(jax.jit(nested)(xs), 2 * jnp.moveaxis(xs, 1, 0))
    assert len(calls) == 6


def test_its_error_is_the_callers_and_ends_the_batch():
    calls = []

    def fails(identity, words_address):
        calls.append(identity)
        return c_string("it went wrong")

    code = calling(fails, [(1, 4)], [(1, 4)])
    call = Call("function", code, (((4,), np.dtype(np.float32)),))
    with pytest.raises(jax.errors.JaxRuntimeError, match="it went wrong"):
        jax.block_until_ready(jax.jit(jax.vmap(lambda x: bind(call, x)[0]))(jnp.ones((3, 4))))
    assert calls == [42]


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (MemoryError("none is left"), "RESOURCE_EXHAUSTED"),
        (DeviceMemoryError("allocating 9 bytes failed"), "RESOURCE_EXHAUSTED"),
        (RuntimeError("Call to cuLaunchKernel results in CUDA_ERROR_OUT_OF_MEMORY"), "RESOURCE_EXHAUSTED"),
        (ValueError("the step must be positive"), "INTERNAL"),
    ],
)
def test_its_error_has_the_code_of_its_exception(error, code):
    def fails(identity, words_address):
        (ctypes.c_int64 * 5).from_address(words_address)[-1] = error_code(error)
        return describe_to_c_string("function", type(error), error)

    entry = calling(fails, [(1, 4)], [(1, 4)])
    call = Call("function", entry, (((4,), np.dtype(np.float32)),))
    with pytest.raises(jax.errors.JaxRuntimeError, match=f"^{code}: function raised .*{error}"):
        jax.block_until_ready(jax.jit(lambda x: bind(call, x)[0])(jnp.ones(4)))
