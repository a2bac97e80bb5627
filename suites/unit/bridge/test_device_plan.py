"""Device plans: what reaches cuLaunchKernelEx, tested on the CPU with a stand-in that records its arguments."""

import ctypes
import re
import time
from concurrent.futures import ThreadPoolExecutor

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bridge import SignatureError
from bridge.ffi.kernel_call import bind
from bridge.ffi.native.addresses import Arrays, c_function, c_string
from bridge.ffi.plans import device
from bridge.ffi.plans.device import OUT_OF_MEMORY, DevicePlan, Launch, Patch
from bridge.ffi.plans.host import Mutex, in_turn
from bridge.ffi.target import CUDA, Target
from suites.unit.bridge.entries import PlanCall, call_of


class _Attribute(ctypes.Structure):
    """``CUlaunchAttribute`` of cuda.h, with the first three numbers of its value."""

    _fields_ = (
        ("id", ctypes.c_uint), ("pad", ctypes.c_char * 4), ("value", ctypes.c_int * 3), ("rest", ctypes.c_char * 52),
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
FLOAT = np.dtype(np.float32)


class Recorder:
    """A target on the CPU platform whose launches are recorded, and answered with ``status``."""

    def __init__(self, is_portable=False):
        self.launches, self.status = [], 0
        self._launch = _CU_LAUNCH_EX(self._record)
        self._describe = device.DESCRIBE(
            lambda status, name: c_string(f"launching {ctypes.string_at(name).decode()} failed: status {status}")
        )
        addresses = c_function(self._launch), c_function(self._describe)
        self.target = Target(
            f"bridge_test_device_plan_{id(self)}",
            "cpu",
            lambda: device.make_execute(on_stream=False),
            words=lambda: device.driver_words(*addresses),
            is_portable=is_portable,
        )

    def _record(self, configuration, handle, parameters, extra):
        config = configuration.contents
        attributes = [(each.id, *each.value) for each in config.attributes[: config.count]]
        about = handle, (*config.grid,), (*config.block,), config.shared, config.stream, attributes, extra
        values = [ctypes.c_int64.from_address(parameters[index]).value for index in range(2)]
        self.launches.append((about, values))
        return self.status

    def call(self, plan, *args, shape=(8,), vmapped=None, inputs=1):
        call = call_of(self.target, plan, ((shape, FLOAT),) * inputs, ((shape, FLOAT),))
        function = (vmapped or (lambda f: f))(lambda *args: bind(call, *args)[0])
        return jax.block_until_ready(jax.jit(function)(*args))


@pytest.fixture(scope="module")
def shared_recorder():
    return Recorder()


@pytest.fixture
def recorder(shared_recorder):
    shared_recorder.launches.clear()
    shared_recorder.status = 0
    return shared_recorder


def launch_of(n=77, **options):
    """Its two parameters are the addresses of the input and of the output."""
    shape = (n, 2**31 - 1, 3), (4, 5, 6), 7
    return Launch(f"k{n}", (n,), *shape, (0, 5, 0), (0, 16), (Patch(0, 0), Patch(2, 1, offset=24)), **options)


def plan_of(*launches, **options):
    return DevicePlan(launches or [launch_of()], **options)


def test_elements_of_a_batch_that_may_begin_inside_of_a_byte_run_one_by_one(recorder):
    packed = (((3,), np.dtype(jnp.int4)),)
    call = call_of(recorder.target, DevicePlan([]), packed, packed)
    batched = jax.jit(jax.vmap(lambda x: bind(call, x)[0])).lower(jnp.zeros((2, 3), jnp.int4)).as_text()
    (types,) = [line.rpartition(":")[2] for line in batched.splitlines() if recorder.target.name in line]
    assert types.strip() == "(tensor<3xi4>) -> tensor<3xi4>"


def test_a_launch_has_the_memory_and_the_address_inside_of_a_buffer_that_it_asks_for(recorder):
    """What else it has is shown by whole functions of Warp (test_warp_callable_cuda)."""
    out = recorder.call(plan_of(), x := jnp.arange(8.0))
    ((_, _, _, shared_bytes, *_), addresses), *more = recorder.launches
    assert (shared_bytes, addresses, more) == (7, [x.unsafe_buffer_pointer(), out.unsafe_buffer_pointer() + 24], [])
    with pytest.raises(SignatureError, match=r"takes 4104 bytes of parameters, expected at most 4096"):
        plan_of(Launch("k", (1,), (1, 1, 1), (1, 1, 1), 0, (2**63,) * 513, (0,), ())).keep(
            Arrays("kernel", [(1, 4)], [(1, 4)])
        )


COOPERATIVE, CLUSTER_OF_TWO, PROGRAMMATIC_STREAM_SERIALIZATION = (2, 1, 0, 0), (4, 2, 1, 1), (6, 1, 0, 0)


def test_each_launch_of_a_plan_has_its_own_attributes(recorder):
    """A launch overlaps only with an earlier one of its own call: the first of the next element does not."""
    launches = [launch_of(1, overlaps=True), launch_of(2, cooperative=True), launch_of(3, overlaps=True, cluster=2)]
    recorder.call(plan_of(*launches), jnp.ones(2), shape=(), vmapped=jax.vmap)
    found = [(about[0], about[5]) for about, _ in recorder.launches]
    assert found == 2 * [(1, []), (2, [COOPERATIVE]), (3, [CLUSTER_OF_TWO, PROGRAMMATIC_STREAM_SERIALIZATION])]


ROWS = jnp.zeros((2, 6))  # of 24 bytes


@pytest.mark.parametrize(("alignments", "what"), [((16, 4), "argument 0"), ((4, 16), "output 0")])
def test_an_element_of_a_batch_that_is_not_aligned_is_an_error_that_names_it(recorder, alignments, what):
    """A kernel that reads several elements at once would end the process at another address."""
    needs = f"^INVALID_ARGUMENT: kernel needs {what} at an address that is a multiple of 16 bytes.*pad the rows"
    with pytest.raises(jax.errors.JaxRuntimeError, match=needs):
        recorder.call(plan_of(alignments=alignments), ROWS, shape=(6,), vmapped=jax.vmap)
    assert len(recorder.launches) == 1  # the first element was aligned


def test_xla_fuses_no_slice_and_no_update_into_a_call_on_a_gpu():
    """Since jaxlib 0.11 it does, if nothing stands between them: a kernel then overwrites the input that it reads."""
    call = PlanCall("kernel", (((8,), FLOAT),), target=CUDA, description="", address=0)
    function = jax.jit(lambda x: x.at[1:9].set(bind(call, x[2:10])[0]))
    unchecked = [jax.export.DisabledSafetyCheck.custom_call(CUDA.name)]
    text = jax.export.export(function, platforms=["cuda"], disabled_checks=unchecked)(jnp.zeros(16)).mlir_module()
    taken, made = re.search(rf"(%\S+) = stablehlo.custom_call @{CUDA.name}\((%\S+)\)", text).group(2, 1)
    assert f"{taken} = stablehlo.optimization_barrier" in text
    assert re.findall(rf"= (\S+)[^=\n]* {made}\b", text) == ["stablehlo.optimization_barrier"]


@pytest.mark.parametrize(("status", "code"), [(OUT_OF_MEMORY, "RESOURCE_EXHAUSTED"), (701, "INTERNAL")])
def test_a_failed_launch_is_an_error_that_names_kernel_and_status(recorder, status, code):
    recorder.status = status
    with pytest.raises(jax.errors.JaxRuntimeError, match=f"^{code}: launching k77 failed: status {status}"):
        recorder.call(plan_of(), jnp.arange(8.0))


@pytest.mark.parametrize("handles", [(), (0,)])
def test_a_device_without_the_kernel_is_an_error(recorder, handles):
    launch = Launch("k", handles, (1, 1, 1), (1, 1, 1), 0, (0,), (0,), (Patch(0, 0),))
    with pytest.raises(jax.errors.JaxRuntimeError, match="not loaded on this device"):
        recorder.call(plan_of(launch), jnp.arange(8.0))
    assert recorder.launches == []


class SlowRecorder(Recorder):
    def _record(self, configuration, handle, parameters, extra):
        self.launches.append(handle)
        time.sleep(0.01)
        return 0


def test_calls_in_turn_do_not_mix_their_launches():
    recorder = SlowRecorder()
    recorder.target = recorder.target.variant("_in_turn", lambda execute: in_turn(execute, Mutex.new()))
    plans = [plan_of(launch_of(n), launch_of(n)) for n in range(1, 9)]
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda plan: recorder.call(plan, jnp.ones(8)), plans))
    assert recorder.launches[::2] == recorder.launches[1::2]


def test_a_handler_from_disk_launches_by_the_driver_of_its_own_process(tmp_path, monkeypatch):
    monkeypatch.setattr("bridge.ffi.native.object_code._path", lambda name, source: tmp_path / "code" / "file")
    one, other = Recorder(is_portable=True), Recorder(is_portable=True)  # their addresses differ, as in two processes
    one.call(plan_of(launch_of()), jnp.arange(8.0))
    monkeypatch.setattr("bridge.ffi.native.call_frame.compile_target", None)  # the second one finds the code on disk
    other.call(plan_of(launch_of()), jnp.arange(8.0))
    assert [len(each.launches) for each in (one, other)] == [1, 1]
