"""Device plans: what reaches cuLaunchKernel, tested on the CPU with a stand-in that records its arguments."""

import ctypes
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bridge import DeviceMemoryError, PlatformError, SignatureError
from bridge.ffi.cuda import driver
from bridge.ffi.kernel_call import Call, bind
from bridge.ffi.native.addresses import c_string
from bridge.ffi.plans import device
from bridge.ffi.plans.device import DevicePlan, Launch, Patch
from bridge.ffi.plans.driver_status import OUT_OF_MEMORY
from bridge.ffi.target import Target
from bridge.languages.launch_shape import LaunchShape
from bridge.languages.numba_cuda.array_parameters import array_launch
from bridge.signature.array_types import ArrayType
from suites.unit.bridge.entries import code_of

_CU_LAUNCH = ctypes.CFUNCTYPE(
    *(ctypes.c_int, ctypes.c_void_p, *[ctypes.c_uint] * 7),
    *(ctypes.c_void_p, ctypes.POINTER(ctypes.c_void_p), ctypes.c_void_p),
)
_CU_LAUNCH_COOPERATIVE = ctypes.CFUNCTYPE(
    *(ctypes.c_int, ctypes.c_void_p, *[ctypes.c_uint] * 7), *(ctypes.c_void_p, ctypes.POINTER(ctypes.c_void_p))
)


class _Attribute(ctypes.Structure):
    """``CUlaunchAttribute`` of cuda.h, with the first word of its value."""

    _fields_ = (
        ("id", ctypes.c_uint), ("pad", ctypes.c_char * 4), ("value", ctypes.c_int), ("rest", ctypes.c_char * 60),
    )  # fmt: skip


class _Configuration(ctypes.Structure):
    """``CUlaunchConfig`` of cuda.h."""

    _fields_ = (
        ("grid", ctypes.c_uint * 3), ("block", ctypes.c_uint * 3), ("shared", ctypes.c_uint),
        ("stream", ctypes.c_void_p), ("attributes", ctypes.POINTER(_Attribute)), ("count", ctypes.c_uint),
    )  # fmt: skip


_CU_LAUNCH_EX = ctypes.CFUNCTYPE(
    *(ctypes.c_int, ctypes.POINTER(_Configuration), ctypes.c_void_p),
    *(ctypes.POINTER(ctypes.c_void_p), ctypes.c_void_p),
)
_numbers = itertools.count()


class Recorder:
    """A target on the CPU platform whose launches are recorded, and answered with ``status``."""

    def __init__(self):
        self.launches, self.status, self.words = [], 0, 0
        self._launch = _CU_LAUNCH(self._record)
        self._launch_cooperative = _CU_LAUNCH_COOPERATIVE(lambda *args: self._record(*args, "cooperative"))
        self._launch_ex = _CU_LAUNCH_EX(self._record_configured)
        self._describe = device.DESCRIBE(
            lambda status, name: c_string(f"launching {ctypes.string_at(name).decode()} failed: status {status}")
        )
        addresses = [ctypes.cast(f, ctypes.c_void_p).value for f in self._functions()]
        self.target = Target(
            f"bridge_test_{next(_numbers)}", "cpu", lambda: device.compile_execute(*addresses, on_stream=False)
        )

    def _functions(self):
        return self._launch, self._launch_cooperative, self._launch_ex, self._describe

    def _record(self, handle, gx, gy, gz, bx, by, bz, shared, stream, parameters, extra):
        values = [ctypes.c_int64.from_address(parameters[index]).value for index in range(self.words)]
        self.launches.append(((handle, (gx, gy, gz), (bx, by, bz), shared, stream, extra), values))
        return self.status

    def _record_configured(self, configuration, handle, parameters, extra):
        config = configuration.contents
        attributes = [(each.id, each.value) for each in config.attributes[: config.count]]
        shape = *config.grid, *config.block, config.shared
        return self._record(handle, *shape, config.stream, parameters, extra or attributes)

    def call(self, plan, outputs, *args, **options):
        outs = tuple((shape, np.dtype(dtype)) for shape, dtype in outputs)
        call = Call(plan.name, code_of(self.target, plan), outs, **options)
        return jax.jit(lambda *args: bind(call, *args))(*args)


@pytest.fixture(scope="module")
def shared_recorder():
    return Recorder()


@pytest.fixture
def recorder(shared_recorder):
    shared_recorder.launches.clear()
    shared_recorder.status = 0
    return shared_recorder


SHAPE = LaunchShape((4, 2, 1), (32, 4, 2), 1000)


def plan_of(arrays, inputs, shape=SHAPE, handles=(77,)):
    types = [ArrayType(dtype, extents, writable=True) for dtype, extents in arrays]
    launch = array_launch("kernel", handles, shape, types)
    sizes = [(array.rank, array.item_bytes) for array in types]
    return DevicePlan("kernel", sizes[:inputs], sizes[inputs:], [launch])


def test_the_launch_carries_handle_grid_block_memory_and_stream(recorder):
    plan = plan_of([("float32", (8,)), ("float32", (8,))], 1)
    recorder.words = 14
    jax.block_until_ready(recorder.call(plan, [((8,), "float32")], jnp.arange(8.0)))
    ((about, _),) = recorder.launches
    assert about == (77, (4, 2, 1), (32, 4, 2), 1000, None, None)


def test_arrays_are_passed_as_numba_cuda_passes_them(recorder):
    plan = plan_of([("float64", (2, 3)), ("int16", ()), ("bfloat16", (5,))], 2)
    recorder.words = 9 + 5 + 7
    x, y = jnp.zeros((2, 3), jnp.float32), jnp.int16(3)
    jax.block_until_ready(recorder.call(plan, [((5,), jnp.bfloat16)], x, y))
    ((_, words),) = recorder.launches
    matrix, scalar, out = words[:9], words[9:14], words[14:]
    assert matrix[:4] == [0, 0, 6, 8]
    assert matrix[5:] == [2, 3, 24, 8]
    assert scalar[:4] == [0, 0, 1, 2]
    assert out[:4] == [0, 0, 5, 2]
    assert out[5:] == [5, 2]
    assert all(address > 4096 for address in (matrix[4], scalar[4], out[4]))
    assert len({matrix[4], scalar[4], out[4]}) == 3


def test_the_address_is_that_of_the_buffer(recorder):
    plan = plan_of([("float32", (1000,)), ("float32", (1000,))], 1)
    recorder.words = 14
    x = jnp.arange(1000.0)
    (out,) = recorder.call(plan, [((1000,), "float32")], x)
    out.block_until_ready()
    ((_, words),) = recorder.launches
    assert words[4] == x.unsafe_buffer_pointer()
    assert words[11] == out.unsafe_buffer_pointer()


def test_a_batch_launches_each_element_at_its_own_addresses(recorder):
    plan = plan_of([("float32", (4,)), ("float32", (4,)), ("float32", (4,))], 2)
    recorder.words = 21
    xs, y = jnp.zeros((3, 5, 4)), jnp.zeros((5, 4))
    call = Call("kernel", code_of(recorder.target, plan), (((4,), np.dtype("float32")),))
    nested = jax.vmap(jax.vmap(lambda x, y: bind(call, x, y)[0]), (0, None))
    out = jax.jit(nested)(xs, y)
    out.block_until_ready()
    assert len(recorder.launches) == 15
    starts = [
        [words[at] - array.unsafe_buffer_pointer() for _, words in recorder.launches]
        for at, array in ((4, xs), (11, y), (18, out))
    ]
    assert starts[0] == starts[2] == [16 * element for element in range(15)]
    assert starts[1] == [16 * (element % 5) for element in range(15)]


def test_an_empty_plan_launches_nothing(recorder):
    plan = DevicePlan("kernel", [], [(1, 4)], [])
    (out,) = recorder.call(plan, [((0,), "float32")])
    assert out.shape == (0,)
    assert recorder.launches == []


def test_several_launches_run_in_order_with_offsets(recorder):
    launches = [
        Launch(f"k{n}", (n,), (1, 1, 1), (1, 1, 1), 0, (5, 0), (8, 0), (Patch(1, 1, offset=8 * n),)) for n in (1, 2, 3)
    ]
    recorder.words = 2
    (out,) = recorder.call(DevicePlan("kernel", [(1, 4)], [(1, 4)], launches), [((64,), "float32")], jnp.ones(2))
    out.block_until_ready()
    base = out.unsafe_buffer_pointer()
    assert [(about[0], words) for about, words in recorder.launches] == [(n, [base + 8 * n, 5]) for n in (1, 2, 3)]


def test_a_cooperative_kernel_is_launched_cooperatively_and_its_neighbours_are_not(recorder):
    launches = [
        Launch(f"k{n}", (n,), (n, 2**31 - 1, 3), (4, 5, 6), 7, (0,), (0,), (Patch(0, 1),), cooperative=n == 2)
        for n in (1, 2, 3)
    ]
    recorder.words = 1
    plan = DevicePlan("kernel", [(0, 4)], [(0, 4)], launches)
    call = Call("kernel", code_of(recorder.target, plan), (((), np.dtype("float32")),))
    out = jax.jit(jax.vmap(lambda x: bind(call, x)[0]))(jnp.ones(2))
    start = out.block_until_ready().unsafe_buffer_pointer()
    expected = [
        ((n, (n, 2**31 - 1, 3), (4, 5, 6), 7, None, "cooperative" if n == 2 else None), [start + 4 * element])
        for element in range(2)
        for n in (1, 2, 3)
    ]
    assert recorder.launches == expected


def test_a_launch_overlaps_only_with_an_earlier_one_of_its_own_call(recorder):
    launches = [
        Launch(f"k{n}", (n,), (n, 2, 2**31 - 1), (4, 5, 6), 7, (0,), (0,), (Patch(0, 1),), overlaps=n != 2)
        for n in (1, 2, 3)
    ]
    recorder.words = 1
    plan = DevicePlan("kernel", [(0, 4)], [(0, 4)], launches)
    call = Call("kernel", code_of(recorder.target, plan), (((), np.dtype("float32")),))
    out = jax.jit(jax.vmap(lambda x: bind(call, x)[0]))(jnp.ones(2))
    start = out.block_until_ready().unsafe_buffer_pointer()
    programmatic_stream_serialization = 6
    expected = [
        (
            (n, (n, 2, 2**31 - 1), (4, 5, 6), 7, None, [(programmatic_stream_serialization, 1)] if n == 3 else None),
            [start + 4 * element],
        )
        for element in range(2)
        for n in (1, 2, 3)
    ]
    assert recorder.launches == expected


def test_a_cooperative_launch_that_fails_is_an_error_too(recorder):
    recorder.status, recorder.words = 720, 1
    launch = Launch("together", (1,), (1, 1, 1), (1, 1, 1), 0, (0,), (0,), (Patch(0, 0),), cooperative=True)
    with pytest.raises(jax.errors.JaxRuntimeError, match="launching together failed: status 720"):
        jax.block_until_ready(recorder.call(DevicePlan("k", [], [(1, 4)], [launch]), [((8,), "float32")]))


def test_a_failed_launch_is_an_error_that_names_kernel_and_status(recorder):
    recorder.status, recorder.words = 701, 14
    plan = plan_of([("float32", (8,)), ("float32", (8,))], 1)
    with pytest.raises(jax.errors.JaxRuntimeError, match="launching kernel failed: status 701"):
        jax.block_until_ready(recorder.call(plan, [((8,), "float32")], jnp.arange(8.0)))


@pytest.mark.parametrize(("status", "code"), [(OUT_OF_MEMORY, "RESOURCE_EXHAUSTED"), (701, "INTERNAL")])
def test_only_missing_memory_has_the_code_of_missing_memory(recorder, status, code):
    recorder.status, recorder.words = status, 14
    plan = plan_of([("float32", (8,)), ("float32", (8,))], 1)
    with pytest.raises(jax.errors.JaxRuntimeError, match=f"^{code}: launching kernel failed: status {status}"):
        jax.block_until_ready(recorder.call(plan, [((8,), "float32")], jnp.arange(8.0)))


@pytest.mark.parametrize(("status", "kind"), [(OUT_OF_MEMORY, DeviceMemoryError), (700, PlatformError)])
def test_only_missing_memory_is_an_error_of_memory_in_python(monkeypatch, status, kind):
    monkeypatch.setattr(driver, "error_text", lambda status: f"status {status}")
    with pytest.raises(kind, match=f"^loading it failed: status {status}") as caught:
        driver._check(status, "loading it")
    assert isinstance(caught.value, MemoryError) == (kind is DeviceMemoryError)


@pytest.mark.parametrize("handles", [(), (0,)])
def test_a_device_without_the_kernel_is_an_error(recorder, handles):
    plan = plan_of([("float32", (8,)), ("float32", (8,))], 1, handles=handles)
    with pytest.raises(jax.errors.JaxRuntimeError, match="not loaded on this device"):
        jax.block_until_ready(recorder.call(plan, [((8,), "float32")], jnp.arange(8.0)))
    assert recorder.launches == []


def test_buffers_that_do_not_match_the_plan_are_an_error(recorder):
    plan = plan_of([("float32", (8,)), ("float32", (8,)), ("float32", (8,))], 2)
    with pytest.raises(jax.errors.JaxRuntimeError, match="called with other buffers than its 2 inputs and 1 outputs"):
        jax.block_until_ready(recorder.call(plan, [((8,), "float32")], jnp.arange(8.0)))


def test_too_many_parameters_are_refused():
    with pytest.raises(SignatureError, match=r"takes \d+ bytes of parameters, expected at most 4096"):
        plan_of([("float32", (1,) * 60)] * 5, 4).keep()
