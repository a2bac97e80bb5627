"""What is built for CUDA, without a GPU: a stand-in for the driver says that JAX has the devices 0 and 2."""

import contextlib
import re
from types import SimpleNamespace

import jax
import numba
import numpy as np
import pytest

from bridge import KernelCompileError, LaunchError
from bridge.cuda.cubins import Number
from bridge.cuda.launch_shape import LaunchShape
from bridge.ffi.cuda import devices as ordinals
from bridge.ffi.cuda import driver
from bridge.ffi.cuda.devices import Limits
from bridge.ffi.plans.device import Patch
from bridge.kernel import Signature
from bridge.kernel.arguments import ArrayType
from bridge.languages.numba_cuda import cuda_compilation
from bridge.languages.numba_cuda.array_parameters import array_launch
from bridge.languages.numba_cuda.cuda_compilation import CudaDefinition
from suites.unit.bridge.cubins import sizes_in

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

    replacements = {
        "compute_capability": CAPABILITIES.__getitem__,
        "current": current,
        "load_kernel": load_kernel,
        "load_function": lambda kernel: kernel + here[-1],
        "limits": lambda function, ordinal: Limits(),
        "static_shared_bytes": lambda function: 0,
        "parameter_sizes": lambda function: None,  # as of drivers before CUDA 12.4
        "most_cooperative_blocks": lambda *of: asked.append(of) or 264,
        "allow_shared_bytes": lambda function, size: asked.append((function, size)),
    }
    monkeypatch.setattr(ordinals, "local_ordinals", lambda: sorted(CAPABILITIES))
    for name, replacement in replacements.items():
        monkeypatch.setattr(driver, name, replacement)
    return asked


class TestCudaCpp:
    SOURCE = 'extern "C" __global__ void copy(const float* x, float* out, int n) { out[threadIdx.x] = x[threadIdx.x]; }'
    COOPERATIVE = SOURCE.replace("{", '{ asm volatile("{ .reg .u32 r; mov.u32 r, %envreg2; }"); ')

    @pytest.fixture
    def build(self, devices):
        cuda_cpp = pytest.importorskip("bridge.languages.cuda_raw_kernel")
        pytest.importorskip("cuda.core", reason="cuda-core is not installed")
        options = cuda_cpp.CppOptions(SHAPE, scalars=(Number.of("n", np.int32(7)),))
        return lambda source=self.SOURCE: cuda_cpp.LANGUAGE.compile(
            cuda_cpp.define(source, "copy", ()), options, SIGNATURE, platform="cuda"
        ).load()

    def test_each_device_gets_the_code_of_its_architecture(self, devices, build):
        (launch,) = build().launches
        assert launch.handles == (10, 0, 12)
        assert not launch.cooperative
        assert devices == [(0, "copy", b"\x7fELF"), (10, 64), (2, "copy", b"\x7fELF"), (12, 64)]

    def test_a_function_that_synchronises_its_grid_is_launched_cooperatively(self, devices, build, monkeypatch):
        (launch,) = build(self.COOPERATIVE).launches
        assert launch.cooperative
        assert [asked for asked in devices if len(asked) == 4] == [(10, 0, 32, 64), (12, 2, 32, 64)]
        for most, advice in ((3, "each thread handle several"), (0, "Use a GPU that has cooperative launches")):
            monkeypatch.setattr(driver, "most_cooperative_blocks", lambda *of, most=most: most)
            with pytest.raises(LaunchError, match=rf"copy .* its 4 blocks .* at most {most} of them .*{advice}"):
                build(self.COOPERATIVE)

    def test_gpus_on_which_it_is_launched_in_different_ways_are_refused(self, build):
        source = self.COOPERATIVE.replace("asm", "\n#if __CUDA_ARCH__ >= 900\nasm").replace('}");', '}");\n#endif\n')
        with pytest.raises(LaunchError, match=r"copy is launched in different ways on sm_80, sm_90\. Let CUDA_VISIBLE"):
            build(source)


@pytest.mark.parametrize(
    ("body", "operation"), [("out[0] = n + 1", "<ufunc 'add'>"), ("for i in range(n): out[i] = 1", r"range\(")]
)
def test_a_scalar_that_is_used_as_a_number_is_named_with_the_cure(body, operation):
    cuda = pytest.importorskip("numba.cuda", reason="numba-cuda is not installed")
    exec(f"def use(n, out):\n {body}", names := {})
    arrays = [ArrayType("int32", (), False), ArrayType("float32", (4,), True)]
    types = [*map(cuda_compilation.numba_type, arrays)]
    with pytest.raises(Exception, match=operation) as caught:
        cuda.compile_ptx(names["use"], cuda.types.void(*types), cc=(9, 0))
    error = cuda_compilation.refused(CudaDefinition.of(cuda.jit(names["use"])), types, caught.value)
    assert re.search(rf" has {operation}.*\. A scalar is an array of 0 dimensions .* n\[\(\)\]", str(error))


def test_arrays_are_passed_as_numba_cuda_passes_them():
    arrays = [ArrayType("float64", (2, 3), True), ArrayType("int16", (), True), ArrayType("bfloat16", (5,), True)]
    launch = array_launch("kernel", SHAPE, arrays)
    assert launch.blob == (0, 0, 6, 8, 0, 2, 3, 24, 8, *(0, 0, 1, 2, 0), *(0, 0, 5, 2, 0, 5, 2))
    assert launch.patches == (Patch(4, 0), Patch(13, 1), Patch(18, 2))
    without_gpu = pytest.importorskip("suites.unit.bridge.without_gpu", exc_type=ImportError)
    with without_gpu.compiling():
        kernel = numba.cuda.jit(lambda x, y, out: None)
        code = cuda_compilation.compile_kernel(CudaDefinition.of(kernel), arrays)._codelibrary
    assert sizes_in(code.get_cubin(cc=(9, 0)).code, code._entry_name) == launch.sizes


def test_explicit_signatures_of_numba_cuda_bind_the_dtypes():
    without_gpu = pytest.importorskip("suites.unit.bridge.without_gpu", exc_type=ImportError)

    def empty(x, out):
        pass

    with without_gpu.compiling():
        kernel = CudaDefinition.of(numba.cuda.jit("void(float32[:], float32[:])")(empty))
        cuda_compilation.compile_kernel(kernel, [ArrayType("float32", (5,), True)] * 2)
        with pytest.raises(KernelCompileError, match=r"empty is declared for .*float32.*, but was called .*float64"):
            cuda_compilation.compile_kernel(kernel, [ArrayType("float64", (5,), True)] * 2)


class TestDriver:
    """The functions of the driver library, of which older ones have fewer."""

    def library(self, monkeypatch, **functions):
        monkeypatch.setattr(driver, "library", lambda: SimpleNamespace(cuInit=lambda flags: 0, **functions))

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
