"""Callback plans: what a Python function is told of a call, tested on the CPU, where there is no stream."""

import ctypes

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bridge import DeviceMemoryError
from bridge.ffi.kernel_call import bind
from bridge.ffi.native.exception_text import describe_to_c_string, error_code
from bridge.ffi.plans import callback
from bridge.ffi.target import Target
from suites.unit.bridge.entries import call_of

TARGET = Target("bridge_test_callback", "cpu", lambda: callback.make_execute(on_stream=False))


def calling(function):
    """A call that calls ``function(identity, words)``, with four numbers in and four out."""
    native = callback.FUNCTION(function)
    address = ctypes.cast(native, ctypes.c_void_p).value
    plan = callback.CallbackPlan("function", address, 42, [(1, 4)], [(1, 4)], native)
    return call_of(TARGET, plan, (((4,), np.dtype(np.float32)),))


def doubling(size, calls):
    def function(identity, words_address):
        stream, ordinal, source, result = (ctypes.c_int64 * 4).from_address(words_address)
        calls.append((identity, stream, ordinal))
        items = (ctypes.c_float * size).from_address(source)
        (ctypes.c_float * size).from_address(result)[:] = [2 * item for item in items]
        return 0

    return function


@pytest.mark.parametrize("batch", [(), (2, 3)])
def test_the_function_gets_identity_stream_device_and_addresses_of_each_element(batch):
    calls = []
    call = calling(doubling(4, calls))
    function = lambda x: bind(call, x)[0]  # noqa: E731
    for _ in batch:
        function = jax.vmap(function, in_axes=-2, out_axes=-2)
    xs = np.arange(4 * np.prod(batch, dtype=int), dtype=np.float32).reshape(*batch, 4)
    np.testing.assert_array_equal(jax.jit(function)(xs), 2 * xs)
    assert calls == [(42, 0, 0)] * np.prod(batch, dtype=int)


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (DeviceMemoryError("allocating 9 bytes failed"), "RESOURCE_EXHAUSTED"),
        (RuntimeError("Call to cuLaunchKernel results in CUDA_ERROR_OUT_OF_MEMORY"), "RESOURCE_EXHAUSTED"),
        (ValueError("é" * 5000 + "end"), "INTERNAL"),
    ],
)
def test_its_error_is_the_callers_with_the_code_of_its_exception_and_ends_the_batch(error, code):
    calls = []

    def fails(identity, words_address):
        calls.append(identity)
        (ctypes.c_int64 * 5).from_address(words_address)[-1] = error_code(error)
        return describe_to_c_string("function", type(error), error)

    call = calling(fails)
    with pytest.raises(jax.errors.JaxRuntimeError, match=f"^{code}: function raised .*{error}"):
        jax.block_until_ready(jax.jit(jax.vmap(lambda x: bind(call, x)[0]))(jnp.ones((3, 4))))
    assert calls == [42]
