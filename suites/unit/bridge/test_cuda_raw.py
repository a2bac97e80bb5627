"""cuda_raw_kernel, and programs that carry machine code: what shows without a GPU, and on a GPU the rest."""

import importlib
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bridge import KernelCompileError, LaunchError, PlatformError, cuda_raw_kernel
from bridge.languages import cuda_raw_kernel as cuda_cpp
from bridge.languages.cuda_raw_kernel import define
from suites.cells.grid import missing_device
from suites.unit.bridge.cubins import cubin_in, sizes_in
from suites.unit.bridge.entries import call_in
from suites.unit.bridge.kernels import exported

pytest.importorskip("cuda.core", reason="cuda-core is not installed")
Spec = jax.ShapeDtypeStruct
N = 1000
X = np.arange(N, dtype=np.float32)
OUT = Spec((N,), np.float32)

SOURCE = """
template <typename T>
__global__ void scale(const T* x, T* out, T factor, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = factor * x[i];
}
extern "C" __global__ void backwards(const float* x, float* out, int n) {
    extern __shared__ float tile[];
    tile[threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    out[threadIdx.x] = tile[n - 1 - threadIdx.x];
}
"""


HEADERS = """
#include <cuda_fp16.h>
#include <cuda_fp8.h>
#include <cooperative_groups.h>
#include <cuda/std/array>
__device__ __noinline__ void wait() { cooperative_groups::this_grid().sync(); }
extern "C" __global__ void f(const float* x, float* out) {
    cuda::std::array<float, 2> a{__half2float(__float2half(x[0])), float(__nv_fp8_e4m3(x[1]))};
    wait();
    out[0] = a[1];
}
"""


HAS_GPU = missing_device("cuda") is None
gpu = pytest.mark.skipif(not HAS_GPU, reason="there is no NVIDIA GPU")
PLATFORM = "cuda" if HAS_GPU else "cpu"


def scale(factor=2.0, source=SOURCE, **options):
    scalars = (np.float32(factor), np.int32(N))
    return cuda_raw_kernel(source, "scale<float>", OUT, launch_dims=N, scalars=scalars, **options)


class TestAnywhere:
    def test_the_source_compiles_for_three_generations(self):
        for architecture in ("sm_80", "sm_90", "sm_100"):
            content, symbol, cooperative = define(SOURCE, "scale<float>", ()).compile(architecture)
            assert (content[:4], symbol, cooperative) == (b"\x7fELF", "_Z5scaleIfEvPKT_PS0_S0_i", False)

    def test_the_headers_of_cuda_and_cccl_are_found(self):
        definition = define(HEADERS, "f", ())
        assert definition.code is not None
        assert definition.compile("sm_90").is_cooperative

    def test_headers_that_the_packages_lack_are_those_of_the_toolkit(self, monkeypatch, tmp_path):
        packages, toolkit = tmp_path / "packages", tmp_path / "toolkit"
        packages.mkdir()
        (toolkit / "include" / "crt").mkdir(parents=True)
        (toolkit / "include" / "crt" / "mma.h").write_text("#define FACTOR 2\n")
        monkeypatch.setattr("cuda.pathfinder.find_nvidia_header_directory", lambda name: str(packages))
        monkeypatch.setenv("CUDA_HOME", str(toolkit))
        monkeypatch.setattr(cuda_cpp, "_toolkit_folders", cuda_cpp._toolkit_folders.__wrapped__)
        source = '#include <crt/mma.h>\nextern "C" __global__ void f(float* out) { out[0] = FACTOR; }'
        assert define(source, "f", ()).compile("sm_90").content.startswith(b"\x7fELF")

    def test_nvrtc_keeps_no_code_of_its_own_unless_it_is_asked_to_or_too_old(self, monkeypatch):
        """Its cache in the driver takes kernels for one that differ in ``ftz`` or ``fma`` alone."""
        core, asked = importlib.import_module("cuda.core"), []

        def too_old(**options):
            asked.append(options.pop("no_cache", None))
            if asked[-1]:
                raise ValueError("no_cache is not supported")
            return make(**options)

        make = core.ProgramOptions
        monkeypatch.setattr(core, "ProgramOptions", too_old)
        assert define(SOURCE + "//", "scale<float>", ()).compile("sm_90").content.startswith(b"\x7fELF")
        assert asked == [True, None]

    def test_launches_sources_and_options_have_keys_of_their_own(self):
        def key(kernel):
            (found,) = set(re.findall(r"key = (-?\d+)", exported(kernel, OUT, platform="cuda").mlir_module()))
            return found

        others = [
            scale(-2.0), scale(threads_per_block=64), scale(source=SOURCE + "//"), scale(options={"ftz": True}),
            scale(options={"fma": False}), scale(alignment=16),
        ]  # fmt: skip
        assert key(scale()) == key(scale())
        assert len({key(scale()), *map(key, others)}) == 7

    def test_parameters_are_pointers_and_then_scalars_in_words_of_their_own(self):
        code = cubin_in(call_in(scale(1.5), X))
        launch = code.launch
        assert launch.parameters == (0, 8, 16, 24)
        assert sizes_in(code.content, code.symbol) == launch.sizes == (8, 8, 4, 4)
        assert launch.blob == (0, 0, int.from_bytes(np.float32(1.5).tobytes(), "little"), N)
        assert [(patch.word, patch.buffer) for patch in launch.patches] == [(0, 0), (1, 1)]
        assert (launch.grid, launch.block) == ((4, 1, 1), (256, 1, 1))

    @pytest.mark.parametrize(
        ("source", "name", "options", "message"),
        [
            ("__global__ void f(float* o) { y; }", "f", (), r'cannot compile f for sm_90:(.|\n)*identifier "y" is'),
            (SOURCE, "nope", (), "nope"),
            (SOURCE, "backwards", (("no_such_option", 1),), "no_such_option"),
            ("#include <none.h>", "f", (), r"none\.h is in no folder .*(.|\n)*cuda-crt.*cuda-cccl.*include_path"),
        ],
    )
    def test_what_nvrtc_says_reaches_the_user(self, source, name, options, message):
        with pytest.raises(KernelCompileError, match=message):
            define(source, name, options).compile("sm_90")

    def test_elements_that_xla_packs_into_one_byte_are_refused(self):
        for dtype, wider in (("int4", "int8"), ("uint4", "uint8")):
            with pytest.raises(KernelCompileError, match=f"NVRTC has no {dtype} arrays. Convert it to {wider} before"):
                jax.eval_shape(scale(), Spec((N,), dtype))
        jax.eval_shape(scale(), Spec((N,), "float8_e4m3fn"))

    def test_wrong_arguments_are_refused_by_name(self):
        with pytest.raises(LaunchError, match=r"scale<float>: alignment is 3, expected a power of two"):
            scale(alignment=3)
        with jax.default_device(jax.devices("cpu")[0]), pytest.raises(PlatformError, match="runs on cuda"):
            scale()(X)


@gpu
def test_on_a_gpu_results_batches_and_shared_memory():
    np.testing.assert_array_equal(scale()(X), 2 * X)
    np.testing.assert_array_equal(jax.vmap(scale())(jnp.stack([X, X + 1])), 2 * np.stack([X, X + 1]))
    backwards = cuda_raw_kernel(
        SOURCE, "backwards", Spec((128,), np.float32), grid=1, block=128, shared_mem=512, scalars=(np.int32(128),)
    )
    np.testing.assert_array_equal(backwards(X[:128]), X[127::-1])
