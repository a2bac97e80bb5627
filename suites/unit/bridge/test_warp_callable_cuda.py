"""warp_callable on CUDA, without a GPU: a stand-in for cuLaunchKernelEx runs the code of the CPU."""

import contextlib
import ctypes
import functools
import re
import types
from unittest import mock

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bridge import PlatformError, jax_kernel, warp_callable
from bridge.compat.warp import library
from bridge.ffi.cuda import driver
from bridge.ffi.cuda.devices import Limits
from bridge.ffi.plans.device import DevicePlan
from bridge.ffi.plans.host import HostPlan
from bridge.kernel import definitions
from bridge.languages.warp import cuda_plan
from bridge.languages.warp.callable import graphs, recorded_function
from bridge.languages.warp.callable.recorded_function import WarpRecording
from bridge.languages.warp.generated import generated, load
from suites.kernels.warp.blocks import wp
from suites.unit.bridge import test_warp_callable as cases
from suites.unit.bridge import test_warp_outside as outside
from suites.unit.bridge.entries import call_in
from suites.unit.bridge.kernels import exported
from suites.unit.bridge.test_cuda_raw import HAS_GPU, gpu
from suites.unit.bridge.test_device_plan import Recorder
from suites.unit.bridge.test_warp_callable import BATCH, FLOATS, RIGHT, X
from suites.unit.bridge.test_warp_calls import distance

PLATFORM = "cuda" if HAS_GPU else "cpu"


class Gpu(Recorder):
    """Runs launches at once, on the CPU, and notes the blocks and the threads of each."""

    def __init__(self):
        super().__init__()
        self._loaded = {}

    def load(self, made, of, backward):
        """Loads the code of the CPU in the place of the code for CUDA; returns a number as its address."""
        alive, _, entry, _ = load(generated(made.kernel, "cpu", None), wp.get_device("cpu"), backward)
        self._loaded[number := len(self._loaded) + 1] = entry, [0, 1, 1 + len(made.kernel.adj.args)][: 2 + backward]
        return alive, types.SimpleNamespace(forward_smem_bytes=0, backward_smem_bytes=0), number, None

    def _record(self, configuration, handle, parameters, extra):
        self.launches.append((configuration.contents.grid[0], configuration.contents.block[0]))
        entry, structs = self._loaded[handle]
        addresses = [parameters[index] for index in structs]
        ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * len(addresses))(entry)(*addresses)
        return 0


GPU = functools.cache(Gpu)


def on_device(name, operations, buffers, shared, alive):
    return cuda_plan.repeat_on_device(name, operations, buffers, 0, (), alive)


@pytest.fixture
def stand_in():
    """Gives programs for the CPU what programs for CUDA get."""
    one, on = GPU(), WarpRecording.on
    core = library()
    with contextlib.ExitStack() as stack:
        stack.enter_context(jax.default_device(jax.devices("cpu")[0]))
        for of, name, new in (
            (WarpRecording, "on", lambda self, platform: on(self, "cuda")),
            (definitions, "CPU", one.target),
            (recorded_function, "repeat_on_host", on_device),
            (cuda_plan, "load", one.load),
            (cuda_plan, "local_ordinals", lambda: [0]),
            (wp, "is_cuda_available", lambda: True),
            (core, "wp_alloc_pinned", lambda size, tag: core.wp_alloc_host(size, tag)),
            (wp, "get_cuda_device", lambda ordinal: wp.get_device("cpu")),
            (driver, "limits", lambda function, ordinal: Limits()),
            (driver, "static_shared_bytes", lambda function: 0),
            (driver, "allow_shared_bytes", lambda function, size: None),
            (driver, "parameter_sizes", lambda function: None),
            (driver, "current", lambda ordinal: contextlib.nullcontext()),
        ):
            stack.enter_context(mock.patch.object(of, name, new))
        yield one


def fresh(function):
    """The callable of a copy, of which nothing was recorded."""
    return warp_callable(functools.wraps(function)(types.FunctionType(function.__code__, function.__globals__)))


OUTSIDE = [(each, functools.partial(outside.of_warp, each)) for each in outside.FUNCTIONS]


def check(call, expected):
    rows = [expected(np.asarray(row)) for row in BATCH]
    np.testing.assert_allclose(call(BATCH[0])[0], rows[0], rtol=1e-6)
    np.testing.assert_allclose(jax.jit(jax.vmap(call))(BATCH)[0], rows, rtol=1e-6)


@pytest.mark.parametrize(("function", "expected"), RIGHT + OUTSIDE, ids=lambda each: getattr(each, "__name__", ""))
def test_launches_do_what_the_function_says_alone_and_for_each_element_of_a_batch(stand_in, function, expected):
    check(fresh(function), expected)


@gpu
@pytest.mark.parametrize("python_call", [False, True], ids=["recorded", "python"])
@pytest.mark.parametrize(("function", "expected"), RIGHT, ids=lambda each: getattr(each, "__name__", ""))
def test_on_a_gpu_too(function, expected, python_call):
    check(warp_callable(function, python_call=python_call), expected)


def test_blocks_have_the_threads_that_the_launch_asks_for(stand_in):
    def asks(a: FLOATS, out: FLOATS):
        wp.launch_tiled(cases.doubled_tile, dim=[2], inputs=[a, out], block_dim=32)
        wp.launch(cases.increment, dim=300, inputs=[wp.zeros(300, dtype=float)], block_dim=64)

    stand_in.launches.clear()
    np.testing.assert_array_equal(warp_callable(asks)(X)[0], 2 * X)
    assert stand_in.launches == [(2, 32), (1, 256), (5, 64)]


def test_what_launches_alone_cannot_do_is_called_in_python(stand_in):
    calls = [call_in(fresh(each), X) for each in (outside.nested, outside.adds_data)]
    assert [type(call.compiled("cpu").load()) for call in calls] == [HostPlan, DevicePlan]


def test_a_machine_without_a_gpu_exports_the_same_call_each_time():
    programs = (exported(fresh(cases.spreads), X, platform="cuda").mlir_module() for _ in range(2))
    one, other = (re.findall(r"@bridge_cuda\(.*", program) for program in programs)
    assert one == other != []


def test_memory_of_the_cpu_is_refused_on_cuda():
    mesh = wp.Mesh(wp.zeros(3, dtype=wp.vec3, device="cpu"), wp.array([0, 1, 2], dtype=int, device="cpu"))
    call = jax.jit(lambda points: jax_kernel(distance)(mesh, points))
    with pytest.raises(PlatformError, match="lowered for cuda, but uses a Mesh on Warp's device cpu"):
        call.trace(jnp.ones((2, 3))).lower(lowering_platforms=("cuda",))


@gpu
@pytest.mark.parametrize("function", [outside.nested, outside.chooses_in_a_loop])
def test_conditions_are_repeated_as_a_graph(function):
    calls = []

    def counted(a: FLOATS, out: FLOATS):
        calls.append(1)
        function(a, out)

    start = jnp.linspace(0.0, 1.0, 8)
    step = warp_callable(counted)
    loop = jax.jit(lambda x: jax.lax.fori_loop(0, 50, lambda _, y: step(y / 8)[0], x))
    expected, body = start, jax.jit(lambda x: warp_callable(function, python_call=True)(x / 8)[0])
    for _ in range(50):
        expected = body(expected)
    for _ in range(3):
        assert np.array_equal(loop(start), expected)
    assert len(calls) < 20


@pytest.mark.parametrize("fails", [False, True])
def test_addresses_that_come_again_are_captured_and_the_oldest_forgotten(monkeypatch, fails):
    calls, launched, tried = [], [], []

    @contextlib.contextmanager
    def capture():
        tried.append(1)
        if fails:
            raise RuntimeError("no graph with a temporary in a condition")
        calls.append("captured")
        yield types.SimpleNamespace(graph=len(calls))

    stand_ins = {"Stream": lambda _: None, "ScopedStream": lambda *_, **__: contextlib.nullcontext()}
    for name, each in {**stand_ins, "ScopedCapture": capture, "capture_launch": launched.append}.items():
        monkeypatch.setattr(graphs.wp, name, each)
    monkeypatch.setattr(graphs, "MOST", 2)
    own = graphs.WarpGraphs()
    for address in (1, 1, 1, 2, 3, 1):  # 1 is forgotten when 3 comes
        own.run((address,), None, lambda: calls.append("called"))
    assert calls == ["called"] * 6 if fails else calls == ["called", "captured", "called", "called", "called", "called"]
    assert (len(tried), len(launched)) == (1, 0 if fails else 2)
