"""numba_cuda_kernel with kernels of numba-cuda-mlir: what shows without a GPU, and on a GPU the rest."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bridge import KernelCompileError, KernelTypeError, LaunchError, numba_cuda_kernel
from bridge.ffi.plans.device import Patch
from bridge.languages.numba_cuda import mlir
from bridge.languages.numba_cuda import numba_cuda_kernel as cuda_jit
from suites.backends.numba_cuda_mlir import ported
from suites.ops.rms_norm.numba_cuda import rms_norm_cuda
from suites.unit.bridge.cubins import cubin_in, sizes_in
from suites.unit.bridge.entries import call_in
from suites.unit.bridge.test_cuda_builds import devices  # noqa: F401

cuda = pytest.importorskip("numba_cuda_mlir.cuda", reason="numba-cuda-mlir is not installed")
compat = pytest.importorskip("bridge.compat.numba_cuda_mlir")
tools = pytest.importorskip("numba_cuda_mlir.tools")
PLATFORM = "cuda" if cuda.is_available() else "cpu"
N = 1000
X = np.linspace(-5, 5, N, dtype=np.float32)
OUT = jax.ShapeDtypeStruct((N,), np.float32)
SOURCE = """
@cuda.jit
def scale(x, out):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = x[i] * 2
"""


def kernel_at(line, source=SOURCE, **names):
    """The kernel of a source, as it stands at a line of a file."""
    scope = {"cuda": cuda, "np": np, **names}
    exec(compile("\n" * line + source, f"file_{line}.py", "exec"), scope)
    return scope["scale"]


scale = kernel_at(0)


@pytest.fixture
def wrap(devices, monkeypatch):  # noqa: F811
    """Wraps kernels where there is no GPU: JAX seems to have the devices 0 and 2, of different kinds."""
    monkeypatch.setattr(cuda_jit, "require_mlir", lambda kernel: None)
    monkeypatch.setattr(cuda_jit, "local_ordinals", lambda: [0, 2])
    return lambda kernel, outs=OUT, **options: numba_cuda_kernel(kernel, outs, **{"launch_dims": N, **options})


def test_a_kernel_is_compiled_for_each_kind_of_gpu_and_gets_memrefs(wrap, devices):  # noqa: F811
    call = call_in(wrap(scale, shared_mem=64), OUT)
    (launch,) = call.compiled("cuda").load().launches
    assert launch.handles == (10, 0, 12)
    assert launch.blob == (0, 0, 0, N, 1) * 2
    assert launch.patches == (Patch(0, 0), Patch(1, 0), Patch(5, 1), Patch(6, 1))
    assert (launch.grid, launch.block, launch.shared_bytes) == ((4, 1, 1), (256, 1, 1), 64)
    assert [each[0] for each in devices if len(each) == 3] == [0, 2]
    assert mlir.memref_words(4, (2, 3, 5)) == ([0, 0, 0, 2, 3, 5, 15, 5, 1], (0, 1))
    assert mlir.memref_words(8, ()) == ([0, 0, 0], (0, 1))


@pytest.mark.parametrize(
    ("capability", "dtype"),
    [(80, "float16"), (100, "bool"), *((90, each) for each in ("uint64", "bfloat16", "float64", "complex64"))],
)
def test_kernels_compile_for_three_generations_without_a_gpu(wrap, capability, dtype):
    with jax.enable_x64(True):
        spec = jax.ShapeDtypeStruct((N,), dtype)
        copy = kernel_at(0, SOURCE.replace("* 2", ""))
        call = call_in(wrap(copy, spec), spec)
    known = tools._cached_cc
    code = cubin_in(call, capability)
    assert sizes_in(code.content, code.symbol) == code.launch.sizes
    assert tools._cached_cc is known  # the GPU of the process again


def test_calls_of_equal_code_have_one_key_wherever_the_kernel_stands(wrap, tmp_path):
    def key(kernel, **options):
        return call_in(wrap(kernel, **options), OUT).describe("cuda")[1]

    logarithms = [
        kernel_at(0, SOURCE.replace("x[i] * 2", f"cuda.libdevice.fast_{name}f(x[i])")) for name in ("log", "log2")
    ]
    assert len({*map(key, logarithms)}) == 2  # functions of a library keep their names
    others = [
        kernel_at(0, SOURCE.replace("2", "3")),
        kernel_at(0, SOURCE.replace("cuda.jit", "cuda.jit(fastmath=True)")),
        kernel_at(0, SOURCE.replace("cuda.jit", "cuda.jit(max_registers=32)")),
    ]
    assert len({key(scale), key(kernel_at(7)), *map(key, others)}) == 4
    (tmp_path / "code.ptx").write_text(".version 8.0\n.target sm_80\n.address_size 64\n")
    linked = cuda.jit(link=[str(tmp_path / "code.ptx")])(scale.py_func)
    assert '"identity":"local' in key(linked)


def test_equal_code_has_one_identity_wherever_its_functions_lie_in_memory(wrap):
    specs = [jax.ShapeDtypeStruct(shape, np.float32) for shape in ((4, 8), (8,), (4, 8))]
    kernels = []
    for _ in range(2):
        ported.cache_clear()
        kernels.append(ported(rms_norm_cuda))
    one, other = (call_in(wrap(kernel, specs[2]), *specs[:2]).describe("cuda") for kernel in kernels)
    assert one == other


def test_default_values_and_a_whole_grid_that_waits(wrap):
    source = SOURCE.replace("(x, out)", "(x, out, factor=3)").replace("* 2", "* math.exp(factor)")
    source = source.replace("    i =", "    cuda.cg.this_grid().sync()\n    i =")
    launch = cubin_in(call_in(wrap(kernel_at(0, source, math=math)), OUT)).launch
    assert launch.cooperative
    assert len(launch.blob) == 10


def test_what_is_wrong_is_said(wrap):
    with compat.compiling_for(90):
        declared = kernel_at(0, SOURCE.replace("cuda.jit", "cuda.jit('void(float64[:], float64[:])')"))

    def changed(old, new, **names):
        return kernel_at(0, SOURCE.replace(old, new), **names)

    cases = {
        r"readonly array(.|\n)*Inputs are read-only.*input_output_aliases": changed("out[i] =", "x[i] ="),
        "Give the array its shape before the call": changed("x[i]", "x.reshape(2, 500)[0, i]"),
        "refers to the JAX array 'weights'": changed("x[i]", "weights[i]", weights=jnp.ones(N)),
        "Import modules outside of the kernel": changed("    i =", "    import math\n    i ="),
        "scale is declared for .*float64": declared,
    }
    for message, kernel in cases.items():
        with pytest.raises(KernelCompileError, match=rf"scale(.|\n)*{message}|{message}"):
            jax.eval_shape(wrap(kernel), OUT)


def test_debug_is_refused_and_a_missing_gpu_is_said(monkeypatch):
    monkeypatch.setattr(cuda, "is_available", lambda: False)
    with pytest.raises(ImportError, match="numba-cuda-mlir finds no NVIDIA GPU"):
        numba_cuda_kernel(scale, OUT, launch_dims=N)
    monkeypatch.setattr(cuda, "is_available", lambda: True)
    with pytest.raises(KernelTypeError, match=r"scale was made by .* with debug=True"):
        numba_cuda_kernel(cuda.jit(debug=True, opt=False)(scale.py_func), OUT, launch_dims=N)


@pytest.mark.parametrize("shape", [{"launch_dims": 2**31}, {"launch_dims": (2**16, 2**15)}])
def test_more_threads_than_32_bits_count_are_refused(wrap, shape):
    with pytest.raises(LaunchError, match=r"scale: the launch has 2147483648 threads.*Let each thread handle several"):
        jax.eval_shape(wrap(scale, **shape), OUT)
    jax.eval_shape(wrap(scale, launch_dims=2**31 - 256), OUT)


@pytest.mark.skipif(not cuda.is_available(), reason="there is no NVIDIA GPU")
class TestOnGpu:
    def call(self, kernel=scale, **options):
        return numba_cuda_kernel(kernel, OUT, **{"launch_dims": N, **options})

    def test_an_input_is_updated_in_place_and_a_grid_waits(self):
        in_place = self.call(kernel_at(0, SOURCE.replace("out[i] =", "x[i] =")), input_output_aliases={0: 0})
        np.testing.assert_array_equal(jax.jit(in_place, donate_argnums=0)(jnp.asarray(X)), 2 * X)
        waits = kernel_at(0, SOURCE.replace("    i =", "    cuda.cg.this_grid().sync()\n    i ="))
        np.testing.assert_array_equal(self.call(waits)(X), 2 * X)
