"""warp_callable on CUDA, without a GPU: launches reach a stand-in for cuLaunchKernelEx, which runs the code of the CPU."""

import contextlib
import ctypes
import itertools
import types
from unittest import mock

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bridge import BridgeError, PlatformError, RecordingError, warp_callable
from bridge.ffi.cuda import driver
from bridge.ffi.cuda.devices import Limits
from bridge.ffi.native.addresses import c_function
from bridge.ffi.plans import device
from bridge.ffi.target import Target
from bridge.languages.warp import callables, cuda_plan
from bridge.languages.warp.generated import generated
from bridge.languages.warp.packing import load
from bridge.languages.warp.recording import WarpRecording
from suites.backends.warp_blocks import wp
from suites.unit.bridge import test_warp_callable as cases
from suites.unit.bridge.test_warp_callable import BATCH, FLOATS, RIGHT, X

_POINTERS = ctypes.POINTER(ctypes.c_void_p)
_LAUNCH = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(ctypes.c_uint * 6), ctypes.c_size_t, _POINTERS, ctypes.c_void_p)


class Device:
    """Runs launches at once, on the CPU.

    Attributes:
        launches: Blocks and threads of a block of each launch, with the words of its bounds.
    """

    def __init__(self):
        self.launches, self._loaded, self._numbers = [], {}, itertools.count(1)
        self._launch = _LAUNCH(self._run)
        addresses = c_function(self._launch), c_function(device.DESCRIBE(lambda *_: 0))
        self.target = Target(
            f"bridge_test_warp_cuda_{id(self)}", "cpu", lambda: device.compile_execute(*addresses, on_stream=False)
        )

    def load(self, made, of, block_dim, backward):
        """Loads the code of the CPU in the place of the code for CUDA; returns a number as its address."""
        alive, _, entry = load(generated(made.kernel, "cpu", None), wp.get_device("cpu"), 1, backward)
        self._loaded[number := next(self._numbers)] = entry, len(made.kernel.adj.args) + 1 if backward else None, alive
        return alive, types.SimpleNamespace(forward_smem_bytes=0, backward_smem_bytes=0), number

    def _run(self, config, handle, parameters, _):
        extents = [*config.contents]
        self.launches.append((extents[0], extents[3]))
        entry, adjoints, _ = self._loaded[handle]
        given = [parameters[0], parameters[1]] + ([] if adjoints is None else [parameters[adjoints]])
        ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * len(given))(entry)(*given)
        return 0


@pytest.fixture(scope="module")
def gpu():
    """Lets callables record for the CPU what they record for CUDA."""
    stand_in, on = Device(), WarpRecording.on
    with contextlib.ExitStack() as stack:
        for of, name, new in (
            (WarpRecording, "on", lambda self, platform: on(self, "cuda")),
            (callables._Callables, "target", lambda self, options, platform: stand_in.target),
            (callables, "_plan_host", callables._plan_device),
            (cuda_plan, "load", stand_in.load),
            (cuda_plan, "local_ordinals", lambda: [0]),
            (wp, "is_cuda_available", lambda: True),
            (wp, "get_cuda_device", lambda ordinal: wp.get_device("cpu")),
            (driver, "limits", lambda function, ordinal: Limits()),
            (driver, "static_shared_bytes", lambda function: 0),
        ):
            stack.enter_context(mock.patch.object(of, name, new))
        yield stand_in


def fresh(function):
    """A copy that nothing was recorded of."""
    copy = types.FunctionType(function.__code__, function.__globals__, function.__name__)
    copy.__annotations__ = function.__annotations__
    return warp_callable(copy)


@pytest.mark.parametrize(
    ("function", "expected"), [each for each in RIGHT if each[0] is not cases.sorts], ids=lambda f: f.__name__
)
def test_launches_do_what_the_function_says_alone_and_for_each_element_of_a_batch(gpu, function, expected):
    call = fresh(function)
    (alone,), (batch,) = call(X), jax.jit(jax.vmap(call))(BATCH)
    rows = [expected(np.asarray(row)) for row in BATCH]
    np.testing.assert_allclose(alone, rows[0], rtol=1e-6)
    np.testing.assert_allclose(batch, rows, rtol=1e-6)
