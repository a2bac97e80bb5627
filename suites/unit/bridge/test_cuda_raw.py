"""cuda_raw_kernel, and programs that carry machine code: what shows without a GPU, and on a GPU the rest."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AxisType, NamedSharding, PartitionSpec

from bridge import (
    KernelCompileError,
    LaunchError,
    PlatformError,
    SignatureError,
    XLACustomKernel,
    cuda_raw_kernel,
    export_checks,
    export_self_contained,
    jax_kernel,
    numba_cuda_callable,
    numba_cuda_kernel,
)
from bridge.ffi.cuda import embedded
from bridge.ffi.plans.device import DevicePlan
from bridge.languages.cuda_cpp import define, launch_of
from suites.unit.processes import output, run

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
extern "C" __global__ void add(const float* x, const float* y, float* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = x[i] + y[i];
}
extern "C" __global__ void backwards(const float* x, float* out, int n) {
    extern __shared__ float tile[];
    tile[threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    out[threadIdx.x] = tile[n - 1 - threadIdx.x];
}
"""


def has_gpu():
    try:
        return bool(jax.devices("cuda"))
    except RuntimeError:
        return False


HAS_GPU = has_gpu()
gpu = pytest.mark.skipif(not HAS_GPU, reason="there is no NVIDIA GPU")
PLATFORM = "cuda" if HAS_GPU else "cpu"


def scale(factor=2.0, **options):
    scalars = (np.float32(factor), np.int32(N))
    return cuda_raw_kernel(SOURCE, "scale<float>", OUT, launch_dims=N, scalars=scalars, **options)


def exported(function, *args):
    return jax.export.export(jax.jit(function), platforms=("cuda",), disabled_checks=export_checks())(*args)


class TestAnywhere:
    @pytest.mark.parametrize("architecture", ["sm_80", "sm_90", "sm_100"])
    def test_the_source_compiles_for_three_generations(self, architecture):
        for name, symbol in (("scale<float>", "_Z5scaleIfEvPKT_PS0_S0_i"), ("add", "add")):
            content, found, cooperative = define(SOURCE, name, ()).compile(architecture)
            assert not cooperative
            assert found == symbol
            assert content.startswith(b"\x7fELF")

    def test_a_program_can_be_exported_without_a_gpu(self):
        program = exported(scale(), OUT).mlir_module()
        assert program.count("@bridge_cuda") == 1
        assert "scale<float>" in program
        assert str(len(SOURCE)) not in program

    def test_the_description_tells_launches_and_sources_apart(self):
        def key(kernel):
            (found,) = set(re.findall(r"key = (-?\d+)", exported(kernel, OUT).mlir_module()))
            return found

        other = cuda_raw_kernel(SOURCE + "//", "scale<float>", OUT, launch_dims=N, scalars=(np.float32(2), np.int32(N)))
        assert key(scale()) == key(scale())
        assert len({key(k) for k in (scale(), scale(-2.0), scale(threads_per_block=64), other)}) == 4

    def test_parameters_are_pointers_and_then_scalars_in_words_of_their_own(self):
        kernel = scale(1.5)
        code = jax.make_jaxpr(kernel)(X).eqns[0].params["jaxpr"].eqns[0].params["call"].code
        launch = launch_of(code.definition.name, (7,), code.options, code.signature)
        assert launch.parameters == (0, 8, 16, 24)
        assert launch.blob == (0, 0, int.from_bytes(np.float32(1.5).tobytes(), "little"), N)
        assert [(patch.word, patch.buffer) for patch in launch.patches] == [(0, 0), (1, 1)]
        assert launch.grid == (4, 1, 1)
        assert launch.block == (256, 1, 1)

    def test_what_nvrtc_says_reaches_the_user(self):
        with pytest.raises(KernelCompileError, match=r'cannot compile f for sm_90:(.|\n)*identifier "y" is undefined'):
            define("__global__ void f(float* o) { y; }", "f", ()).compile("sm_90")
        with pytest.raises(KernelCompileError, match="nope"):
            define(SOURCE, "nope", ()).compile("sm_90")
        with pytest.raises(KernelCompileError, match="no_such_option"):
            define(SOURCE, "add", (("no_such_option", 1),)).compile("sm_90")

    def test_on_the_cpu_it_says_where_it_runs(self):
        with jax.default_device(jax.devices("cpu")[0]), pytest.raises(PlatformError, match="runs on cuda"):
            scale()(X)

    def test_a_plan_survives_being_written_as_text(self):
        code = jax.make_jaxpr(scale())(X).eqns[0].params["jaxpr"].eqns[0].params["call"].code
        launch = launch_of(code.definition.name, (), code.options, code.signature)
        text = embedded.write(DevicePlan("scale", [(1, 4)], [(1, 4)], [launch]), [{90: embedded.Image(90, "s", b"x")}])
        assert isinstance(text, str)
        assert text.isascii()

    @pytest.mark.skipif(HAS_GPU, reason="there is a GPU")
    def test_nothing_can_be_carried_along_without_a_gpu(self):
        exported(scale(), OUT)
        with pytest.raises(PlatformError, match="driver"):
            export_self_contained(scale(), platforms=("cuda",))(OUT)


@gpu
class TestOnGpu:
    def test_results_batches_and_shared_memory(self):
        np.testing.assert_array_equal(scale()(X), 2 * X)
        np.testing.assert_array_equal(jax.vmap(scale())(jnp.stack([X, X + 1])), 2 * np.stack([X, X + 1]))
        backwards = cuda_raw_kernel(
            SOURCE, "backwards", Spec((128,), np.float32), grid=1, block=128, shared_mem=512, scalars=(np.int32(128),)
        )
        np.testing.assert_array_equal(backwards(X[:128]), X[127::-1])

    def test_a_function_that_synchronises_its_grid_is_launched_cooperatively(self):
        from cuda import pathfinder

        found = [pathfinder.locate_nvidia_header_directory(name) for name in ("cudart", "cccl")]
        folders = [folder.abs_path for folder in found if folder is not None]
        source = """
        #include <cooperative_groups.h>
        extern "C" __global__ void total(const float* x, float* partial, float* out, int n) {
            if (threadIdx.x == 0) {
                float part = 0;
                for (int i = blockIdx.x; i < n; i += gridDim.x) part += x[i];
                partial[blockIdx.x] = part;
            }
            cooperative_groups::this_grid().sync();
            float every = 0;
            for (int b = 0; b < gridDim.x; ++b) every += partial[b];
            out[blockIdx.x * blockDim.x + threadIdx.x] = every;
        }
        """

        def total(blocks):
            return cuda_raw_kernel(
                source, "total", [Spec((blocks,), np.float32), Spec((blocks * 64,), np.float32)], grid=blocks, block=64,
                scalars=(np.int32(N),), options={"include_path": folders},
            )  # fmt: skip

        for _ in range(20):
            np.testing.assert_array_equal(total(264)(X)[1], X.sum())
        with pytest.raises(LaunchError, match="its 100000 blocks must all run at once"):
            total(100_000)(X)

    def test_other_parameters_than_those_of_the_function_are_refused(self):
        wrong = cuda_raw_kernel(SOURCE, "scale<double>", OUT, launch_dims=N, scalars=(np.float32(2), np.int32(N)))
        with pytest.raises(SignatureError, match=r"takes parameters of \[8, 8, 8, 4\] bytes, but the call passes"):
            wrong(X)

    def test_as_a_backend_of_an_operator(self):
        op = XLACustomKernel("scale", outs=lambda x: Spec(x.shape, x.dtype))
        op.def_cuda_raw_kernel(lambda outs: scale())
        op.def_jnp_kernel(lambda outs: lambda x: 2 * x)
        assert op.defaults["cuda"] == "cuda_raw"
        np.testing.assert_array_equal(op(X), 2 * X)

    @pytest.mark.skipif(HAS_GPU and len(jax.devices("cuda")) < 2, reason="there is one GPU")
    def test_a_split_dimension_stays_split_over_two_gpus(self):
        mesh = jax.make_mesh((2,), ("d",), axis_types=(AxisType.Auto,), devices=jax.devices("cuda")[:2])

        def generator(outs):
            size = outs[0].shape[0]
            scalars = (np.float32(2), np.int32(size))
            return cuda_raw_kernel(SOURCE, "scale<float>", outs[0], launch_dims=size, scalars=scalars)

        op = XLACustomKernel("scale", outs=lambda x: Spec(x.shape, x.dtype))
        op.def_cuda_raw_kernel(generator)
        op.def_partitioning("b -> b", split="b")
        x = jax.device_put(X, NamedSharding(mesh, PartitionSpec("d")))
        program = jax.jit(op).lower(x).compile()
        assert "all-gather" not in program.as_text()
        np.testing.assert_array_equal(program(x), 2 * X)

    def test_a_process_that_has_only_imported_bridge_runs_what_was_carried_along(self, tmp_path):
        import warp as wp
        from numba import cuda

        @cuda.jit
        def add_numba(x, y, out):
            i = cuda.grid(1)
            if i < out.size:
                out[i] = x[i] + y[i]

        @wp.kernel(module="unique")
        def add_warp(x: wp.array(dtype=float), y: wp.array(dtype=float), out: wp.array(dtype=float)):
            i = wp.tid()
            out[i] = x[i] + y[i]

        numba, warp = numba_cuda_kernel(add_numba, OUT, launch_dims=N), jax_kernel(add_warp)

        def function(x):
            return warp(numba(scale()(x), x), x)[0]

        program = export_self_contained(function)(OUT)
        path = tmp_path / "program"
        path.write_bytes(program.serialize())
        script = (
            "import sys, jax, jax.numpy as jnp, bridge\n"
            f"program = jax.export.deserialize(open({str(path)!r}, 'rb').read())\n"
            f"x = jnp.arange({N}.0)\n"
            "print(bool((program.call(x) == 4 * x).all()), 'warp' in sys.modules, 'numba.cuda' in sys.modules)"
        )
        assert output("-c", script) == "True False False"
        path.write_bytes(exported(function, jnp.asarray(X)).serialize())
        failed = run("-c", script)
        assert failed.returncode != 0
        assert "kernel" in failed.stderr
        assert "this process" in failed.stderr

    def test_a_callable_cannot_be_carried_along(self):
        def launches(x, out, stream):
            out.copy_to_device(x, stream=stream)

        with pytest.raises(PlatformError, match="cannot be carried along"):
            export_self_contained(numba_cuda_callable(launches, OUT))(OUT)
