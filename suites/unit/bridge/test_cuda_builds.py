"""What is built for CUDA, without a GPU: a stand-in for the driver says that JAX has the devices 0 and 2."""

import contextlib
from types import SimpleNamespace

import jax
import numba
import numpy as np
import pytest

from bridge import LaunchError, PlatformError, SignatureError
from bridge.ffi.cuda import driver, embedded, ordinals
from bridge.ffi.cuda.limits import Limits
from bridge.ffi.plans.device import Patch
from bridge.ffi.table_entry import Entry
from bridge.languages import Signature
from bridge.languages.launch_shape import LaunchShape
from bridge.languages.numba_cuda import cuda_jit
from suites.unit.bridge import kernels

SHAPE = LaunchShape((4, 1, 1), (32, 1, 1), 64)
VECTOR = jax.ShapeDtypeStruct((100,), np.float32)
SIGNATURE = Signature.of("k", [VECTOR], [VECTOR], (), with_extents=True)
CAPABILITIES = {0: 80, 2: 90}


@pytest.fixture
def devices(monkeypatch):
    """What the driver is asked for, as a list that grows."""
    asked, here = [], []

    @contextlib.contextmanager
    def current(ordinal):
        here.append(ordinal)
        yield
        here.pop()

    def load_kernel(image, symbol):
        asked.append((here[-1], symbol, image[:4]))
        return 10

    monkeypatch.setattr(ordinals, "local_ordinals", lambda: sorted(CAPABILITIES))
    monkeypatch.setattr(driver, "compute_capability", CAPABILITIES.__getitem__)
    monkeypatch.setattr(driver, "current", current)
    monkeypatch.setattr(driver, "load_kernel", load_kernel)
    monkeypatch.setattr(driver, "load_function", lambda kernel: kernel + here[-1])
    monkeypatch.setattr(driver, "limits", lambda function, ordinal: Limits())
    monkeypatch.setattr(driver, "static_shared_bytes", lambda function: 0)
    monkeypatch.setattr(driver, "parameter_sizes", lambda function: None)  # as of drivers before CUDA 12.4
    monkeypatch.setattr(driver, "most_cooperative_blocks", lambda *of: asked.append(of) or 264)
    monkeypatch.setattr(driver, "allow_shared_bytes", lambda function, size: asked.append((function, size)))
    return asked


class TestCudaCpp:
    SOURCE = 'extern "C" __global__ void copy(const float* x, float* out, int n) { out[threadIdx.x] = x[threadIdx.x]; }'

    @pytest.fixture
    def build(self):
        cuda_cpp = pytest.importorskip("bridge.languages.cuda_cpp")
        pytest.importorskip("cuda.core", reason="cuda-core is not installed")
        options = cuda_cpp.CppOptions(SHAPE, (cuda_cpp.Scalar("int32", np.int32(7).tobytes()),))
        return lambda source=self.SOURCE: cuda_cpp.LANGUAGE.compile(
            cuda_cpp.define(source, "copy", ()), options, SIGNATURE, platform="cuda"
        ).load()

    def test_each_device_gets_the_code_of_its_architecture(self, devices, build):
        built = build()
        (launch,) = built.plan.launches
        assert launch.handles == (10, 0, 12)
        assert devices == [(0, "copy", b"\x7fELF"), (10, 64), (2, "copy", b"\x7fELF"), (12, 64)]
        (images,) = built.images()
        assert {capability: image.capability for capability, image in images.items()} == {80: 80, 90: 90}
        assert images[80].content != images[90].content
        assert (built.plan.inputs, built.plan.outputs) == (((1, 4),), ((1, 4),))

    def test_other_parameters_than_those_of_the_function_are_refused(self, devices, build, monkeypatch):
        monkeypatch.setattr(driver, "parameter_sizes", lambda function: [8, 8, 8])
        with pytest.raises(
            SignatureError, match=r"takes parameters of \[8, 8, 8\] bytes, but the call passes \[8, 8, 4"
        ):
            build()

    def test_parameters_are_checked_with_an_old_driver_too(self, devices, build):
        build()
        wrong = self.SOURCE.replace("int n", "double n")
        with pytest.raises(
            SignatureError, match=r"takes parameters of \[8, 8, 8\] bytes, but the call passes \[8, 8, 4"
        ):
            build(wrong)

    COOPERATIVE = SOURCE.replace("{", '{ asm volatile("{ .reg .u32 r; mov.u32 r, %envreg2; }"); ')

    def test_a_function_that_synchronises_its_grid_is_launched_cooperatively(self, devices, build):
        (launch,) = build().plan.launches
        assert not launch.cooperative
        built = build(self.COOPERATIVE)
        (launch,) = built.plan.launches
        assert launch.cooperative
        assert [asked for asked in devices if len(asked) == 4] == [(10, 0, 32, 64), (12, 2, 32, 64)]
        plan = embedded.read(Entry.of("test", built).embedded())
        assert plan.launches == list(built.plan.launches)

    def test_more_blocks_than_run_at_once_are_refused(self, devices, build, monkeypatch):
        text = Entry.of("test", build(self.COOPERATIVE)).embedded()
        for most, advice in ((3, "each thread handle several"), (0, "Use a GPU that has cooperative launches")):
            monkeypatch.setattr(driver, "most_cooperative_blocks", lambda *of, most=most: most)
            for load in (lambda: build(self.COOPERATIVE), lambda: embedded.read(text)):
                with pytest.raises(
                    LaunchError, match=rf"copy .* its 4 blocks .* at most {most} of them do. .*{advice}"
                ):
                    load()

    def test_a_program_that_carries_the_code_loads_it_again(self, devices, build):
        built = build()
        text = Entry.of("test", built).embedded()
        devices.clear()
        plan = embedded.read(text)
        assert plan.launches == list(built.plan.launches)
        assert (plan.name, plan.inputs, plan.outputs) == ("copy", ((1, 4),), ((1, 4),))
        assert [ordinal for ordinal, symbol, *_ in devices if symbol == "copy"] == [0, 2]

    def test_a_program_that_carries_no_code_for_a_device_is_refused(self, devices, build, monkeypatch):
        text = Entry.of("test", build()).embedded()
        monkeypatch.setitem(CAPABILITIES, 2, 120)
        with pytest.raises(PlatformError, match="'copy' for sm_80, sm_90, but device 2 is sm_120"):
            embedded.read(text)


class TestNumbaCuda:
    @pytest.fixture
    def compiled(self, devices, monkeypatch):
        cuda = pytest.importorskip("numba.cuda", reason="numba-cuda is not installed")
        gpus = {ordinal: SimpleNamespace(compute_capability=divmod(c, 10)) for ordinal, c in CAPABILITIES.items()}
        monkeypatch.setattr(cuda, "gpus", {o: _Gpu(o, gpu, driver) for o, gpu in gpus.items()})
        loads = []

        def get_cufunc():
            loads.append("loaded")
            return SimpleNamespace(handle=10)

        library = SimpleNamespace(get_cufunc=get_cufunc, get_cubin=lambda cc: SimpleNamespace(code=bytes(cc)))
        compiled = SimpleNamespace(
            _codelibrary=library, loads=loads, _bridge_code="code", bind=lambda: None, cooperative=False
        )
        monkeypatch.setattr(cuda_jit, "compile_kernel", lambda definition, arrays: compiled)
        return compiled

    def test_each_device_gets_a_handle_and_each_architecture_is_loaded_once(self, compiled, devices, monkeypatch):
        definition = cuda_jit.define(numba.cuda.jit(kernels.copy.py_func))
        built = cuda_jit.LANGUAGE.compile(definition, SHAPE, SIGNATURE, "cuda").load()
        (launch,) = built.plan.launches
        assert launch.handles == (10, 0, 12)
        assert (launch.grid, launch.block, launch.shared_bytes) == ((4, 1, 1), (32, 1, 1), 64)
        assert launch.patches == (Patch(4, 0), Patch(11, 1))
        assert launch.blob == (0, 0, 100, 4, 0, 100, 4) * 2
        assert len(compiled.loads) == 2
        assert not launch.cooperative
        monkeypatch.setattr(driver, "function_name", lambda handle: f"copy{handle}")
        (images,) = built.images()
        assert {c: (image.symbol, image.content) for c, image in images.items()} == {
            80: ("copy10", bytes((8, 0))),
            90: ("copy12", bytes((9, 0))),
        }

    def test_a_kernel_that_synchronises_its_grid_is_launched_cooperatively(self, compiled, devices, monkeypatch):
        compiled.cooperative = True
        definition = cuda_jit.define(numba.cuda.jit(kernels.copy.py_func))
        (launch,) = cuda_jit.LANGUAGE.compile(definition, SHAPE, SIGNATURE, "cuda").load().plan.launches
        assert launch.cooperative
        assert [asked for asked in devices if len(asked) == 4] == [(10, 0, 32, 64), (12, 2, 32, 64)]
        monkeypatch.setattr(driver, "most_cooperative_blocks", lambda *of: 3)
        with pytest.raises(LaunchError, match="its 4 blocks must all run at once, but on this device at most 3"):
            cuda_jit.LANGUAGE.compile(definition, SHAPE, SIGNATURE, "cuda").load()

    def test_a_launch_of_no_threads_loads_nothing(self, compiled, devices):
        definition = cuda_jit.define(numba.cuda.jit(kernels.copy.py_func))
        built = cuda_jit.LANGUAGE.compile(definition, LaunchShape((0, 1, 1), (32, 1, 1)), SIGNATURE, "cuda").load()
        assert not built.plan.launches
        assert built.images() == []
        assert devices == []


class _Gpu:
    """One of ``numba.cuda.gpus``: its context is current in a ``with`` block."""

    def __init__(self, ordinal, device, driver):
        self._current = lambda: driver.current(ordinal)
        self.compute_capability = device.compute_capability

    def __enter__(self):
        self._entered = self._current()
        self._entered.__enter__()

    def __exit__(self, *error):
        self._entered.__exit__(*error)


def test_what_cannot_leave_this_process_says_so():
    from bridge.languages.numba_cpu import numba_kernel

    wrapper = numba_kernel(kernels.copy, VECTOR)
    wrapper(np.ones(100, np.float32))
    code = jax.make_jaxpr(wrapper)(VECTOR).eqns[0].params["jaxpr"].eqns[0].params["call"].code
    with pytest.raises(PlatformError, match="the kernel 'copy' cannot be carried along by an exported program"):
        code.entry("cpu").embedded()


class TestDriver:
    """The functions of the driver library, of which older ones have fewer."""

    def library(self, monkeypatch, **functions):
        monkeypatch.setattr(driver, "library", lambda: SimpleNamespace(cuInit=lambda flags: 0, **functions))

    def test_an_old_driver_cannot_tell_the_parameters_of_a_kernel(self, monkeypatch):
        self.library(monkeypatch)
        assert driver.parameter_sizes(1) is None

    def test_a_new_driver_tells_the_parameters_of_a_kernel(self, monkeypatch):
        def tell(function, index, offset, size):
            if index.value == 2:
                return 1
            size._obj.value = (8, 4)[index.value]
            return 0

        self.library(monkeypatch, cuFuncGetParamInfo=tell)
        assert driver.parameter_sizes(1) == [8, 4]

    @pytest.mark.parametrize(("cooperative", "expected"), [(1, 132 * 5), (0, 0)])
    def test_blocks_that_run_at_once_are_counted_on_all_multiprocessors(self, monkeypatch, cooperative, expected):
        def attribute(value, number, device):
            value._obj.value = {16: 132, 95: cooperative}[number.value]
            return 0

        def occupancy(blocks, function, threads, shared):
            assert (function.value, threads.value, shared.value) == (7, 256, 100)
            blocks._obj.value = 5
            return 0

        self.library(
            monkeypatch,
            cuDeviceGet=lambda device, ordinal: 0,
            cuDeviceGetAttribute=attribute,
            cuOccupancyMaxActiveBlocksPerMultiprocessor=occupancy,
        )
        assert driver.most_cooperative_blocks(7, 0, 256, 100) == expected

    def test_a_launch_takes_no_shared_memory_from_another_one_of_the_kernel(self, monkeypatch):
        allowed = {1: 49152, 2: 49152}

        def attribute(value, number, function):
            assert number.value == 8  # the most dynamic shared memory, in bytes
            value._obj.value = allowed[function.value]
            return 0

        def allow(function, number, size):
            assert number.value == 8
            allowed[function.value] = size.value
            return 0

        self.library(monkeypatch, cuFuncGetAttribute=attribute, cuFuncSetAttribute=allow)
        for function, size in ((1, 200_000), (1, 0), (1, 64_000), (2, 100)):
            driver.allow_shared_bytes(function, size)
        assert allowed == {1: 200_000, 2: 49152}


def test_handles_are_found_by_ordinal():
    assert ordinals.handles_table({3: 7, 1: 5}) == (0, 5, 0, 7)
