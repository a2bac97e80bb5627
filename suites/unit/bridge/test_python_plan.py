"""Plans of Python functions: what a function is told of a call, tested on the CPU, where there is no stream."""

import ctypes

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bridge import DeviceMemoryError
from bridge.ffi.kernel_call import bind
from bridge.ffi.plans.host import python_plan
from bridge.ffi.target import CPU
from suites.unit.bridge.entries import call_of


def calling(function):
    """A call of ``function(stream, ordinal, addresses)``, with four numbers in and four out."""
    vectors = (((4,), np.dtype(np.float32)),)
    return call_of(CPU, python_plan("function", function, 2), vectors, vectors)


def doubling(calls):
    def function(stream, ordinal, addresses):
        calls.append((stream, ordinal))
        source, result = ((ctypes.c_float * 4).from_address(each) for each in addresses)
        result[:] = [2 * item for item in source]

    return function


@pytest.mark.parametrize("batch", [(), (2, 3)])
def test_the_function_gets_stream_device_and_addresses_of_each_element(batch):
    calls = []
    call = calling(doubling(calls))
    function = lambda x: bind(call, x)[0]  # noqa: E731
    for _ in batch:
        function = jax.vmap(function, in_axes=-2, out_axes=-2)
    xs = np.arange(4 * np.prod(batch, dtype=int), dtype=np.float32).reshape(*batch, 4)
    np.testing.assert_array_equal(jax.jit(function)(xs), 2 * xs)
    assert calls == [(0, 0)] * np.prod(batch, dtype=int)


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

    def fails(*_):
        calls.append(1)
        raise error

    call = calling(fails)
    with pytest.raises(jax.errors.JaxRuntimeError, match=f"^{code}: function raised .*{error}"):
        jax.block_until_ready(jax.jit(jax.vmap(lambda x: bind(call, x)[0]))(jnp.ones((3, 4))))
    assert calls == [1]
