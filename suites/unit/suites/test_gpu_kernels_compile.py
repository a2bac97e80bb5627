"""Kernels for GPUs compile with no GPU present: those of the operators, and the broken ones."""

import pytest

from bridge.languages.cuda_raw_kernel import define
from suites.backends import BACKENDS
from suites.backends.cuda_raw import TYPES, RawKernel
from suites.backends.cutile import CutileCallable
from suites.backends.numba_cuda import CudaKernel
from suites.backends.triton import TritonCallable
from suites.backends.warp import WarpKernel
from suites.kernels.kernel import LaunchedKernel
from suites.kernels.numba_cuda import blocks as cuda_kernels
from suites.kernels.warp.blocks import wp
from suites.mutants import mutants
from suites.numerics.precision import precision
from suites.ops import operators
from suites.unit.bridge.cubins import cubin_in
from suites.unit.bridge.entries import calls_in

SIZE = 1 << 16
KINDS = (CudaKernel, CutileCallable, LaunchedKernel, RawKernel, TritonCallable, WarpKernel)
CASES = [
    pytest.param(operator, backend, dtype, id=f"{operator.name}-{backend.id}-{dtype}")
    for operator in (*operators().values(), *(each.operator for each in mutants().values()))
    for backend, kernel in operator.kernels.items()
    if "cuda" in backend.platforms and isinstance(kernel, KINDS)
    for dtype in operator.dtypes
    if (dtype in TYPES or not isinstance(kernel, RawKernel)) and dtype not in operator.lacks.get(backend.id, {})
]


@pytest.mark.parametrize(("operator", "backend", "dtype"), CASES)
def test_a_kernel_compiles(operator, backend, dtype, monkeypatch, tmp_path):
    missing = cuda_kernels.MISSING if backend is BACKENDS["numba_cuda"] else None
    if why := missing or (backend.missing() if "GPU" not in str(backend.missing()) else None):
        pytest.skip(str(why))
    kernel, inputs = operator.kernels[backend], operator.sample(dtype, SIZE, 0)
    if isinstance(kernel, RawKernel):
        content, *_ = define(kernel.source, kernel.name(dtype), ()).compile("sm_90")
        assert content.startswith(b"\x7fELF")
    elif isinstance(kernel, WarpKernel):
        wp.compile_aot_module(kernel.kernel(dtype).module, arch=90, module_dir=tmp_path, use_ptx=True)
        assert "_forward" in next(tmp_path.glob("*.ptx")).read_text()
    elif backend is BACKENDS["numba_cuda"]:
        assert numba_cuda_code(kernel, inputs, operator.outputs(*inputs))
    else:
        if backend is BACKENDS["numba_cuda_mlir"]:
            imitate_gpu_of_mlir(monkeypatch)
        with precision(dtype):
            calls = calls_in(operator.build(backend, inputs), *inputs)
        assert len(calls) == operator.calls(backend)
        assert all(map(code_of, calls))


@pytest.mark.parametrize("name", ["matmul", "attention"])
def test_triton_multiplies_float32_exactly_and_never_as_tf32(name):
    backend = BACKENDS["triton"]
    if backend.missing():
        pytest.skip(str(backend.missing()))
    operator = operators()[name]
    inputs = operator.sample("float32", 1024, 0)
    for call in calls_in(operator.build(backend, inputs), *inputs):
        text = str(call.definition.content(call.signature))
        assert "tt.dot" in text
        assert "tf32" not in text


@pytest.mark.parametrize(
    ("dtype", "side"),
    [("bfloat16", 1024), ("bfloat16", 1536), ("bfloat16", 2048), ("float8_e4m3fn", 2048), ("float8_e4m3fn", 33)],
)
@pytest.mark.parametrize("name", ["triton", "cutile_kernel"])
def test_large_tiles_and_tiles_over_the_edge_compile(name, dtype, side):
    backend = BACKENDS[name]
    if backend.missing():
        pytest.skip(str(backend.missing()))
    operator = operators()["matmul"]
    inputs = operator.sample(dtype, side**2, 0)
    (call,) = calls_in(operator.build(backend, inputs), *inputs)
    assert code_of(call)


def code_of(call):
    return cubin_in(call).content.startswith(b"\x7fELF")


def numba_cuda_code(kernel, inputs, outs):
    """The LLVM code of a kernel, for which Numba chooses the functions of a GPU of compute capability 9.0."""
    from bridge.kernel.arguments import ArrayType
    from bridge.languages.numba_cuda.cuda_compilation import code_of, compile_now, numba_type
    from suites.unit.bridge.without_gpu import compiling

    types = [
        numba_type(ArrayType(str(array.dtype), (None,) * len(array.shape), index >= len(inputs)))
        for index, array in enumerate((*inputs, *outs))
    ]
    with compiling():
        return code_of(compile_now(kernel.kernel_of(inputs, outs), tuple(types)))


def imitate_gpu_of_mlir(monkeypatch):
    from bridge.languages.numba_cuda import numba_cuda_kernel as cuda_jit

    monkeypatch.setattr(cuda_jit, "require_mlir", lambda kernel: None)
    monkeypatch.setattr(cuda_jit, "local_ordinals", lambda: [0])
    monkeypatch.setattr(cuda_jit.driver, "compute_capability", lambda ordinal: 90)
