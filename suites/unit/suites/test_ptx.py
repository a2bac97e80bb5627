"""Every CUDA kernel of the built-in operators compiles for three generations of GPUs, with no GPU present."""

import itertools
import re
from typing import Any

import pytest
import warp as wp

import bridge
from bridge.languages.cuda_cpp import define
from bridge.languages.warp.generated import has_adjoint
from suites.backends import BACKENDS, Backend
from suites.backends.cuda_raw import NO_CUDA_CORE, TYPES
from suites.backends.warp import WarpKernel
from suites.kernels.numba_cuda import blocks as cuda_kernels
from suites.numerics.precision import precision
from suites.ops import operators
from suites.unit.bridge.entries import calls_in
from suites.unit.suites.ptx import SIZE, code_of_mlir, launches_of, ptx_of

NUMBA_CUDA = pytest.mark.skipif(cuda_kernels.MISSING is not None, reason=str(cuda_kernels.MISSING))

CAPABILITIES = ((8, 0), (9, 0), (10, 0))
CUDA_BACKENDS = (BACKENDS["numba_cuda"], BACKENDS["numba_cuda_callable"])


def _cases(backends: tuple[Backend, ...]) -> list[Any]:
    return [
        pytest.param(operator, backend, dtype, id=f"{operator.name}-{backend.id}-{dtype}")
        for operator in operators().values()
        for backend in backends
        if backend in operator.kernels
        for dtype in operator.dtypes
    ]


def _name(capability: tuple[int, int]) -> str:
    return "sm_{}{}".format(*capability)


@NUMBA_CUDA
@pytest.mark.parametrize(("operator", "backend", "dtype"), _cases(CUDA_BACKENDS))
def test_kernel_compiles_and_computes_in_its_own_precision(
    operator: Any, backend: Backend, dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    launches = launches_of(operator, operator.kernels[backend], dtype, monkeypatch)
    for capability, (dispatcher, arrays, readonly) in itertools.product(CAPABILITIES, launches):
        ptx = ptx_of(dispatcher, arrays, readonly, capability)
        assert re.search(rf"^\.target {_name(capability)}$", ptx, re.MULTILINE)
        _require_good_code(ptx, dtype)


SELECTED = (("csr_matmat", "odd_columns"), ("csr_matmat", "one_column"), ("csr_binary_matvec", "one_long_row"))
"""Operators and edge cases, each with another kernel than samples have."""


@NUMBA_CUDA
@pytest.mark.parametrize(("name", "edge"), SELECTED)
def test_a_kernel_for_other_shapes_compiles_too(name: str, edge: str) -> None:
    operator = operators()[name]
    kernel, inputs = operator.kernels[BACKENDS["numba_cuda"]], operator.edges("float32")[edge]
    sample = operator.sample("float32", SIZE, 0)
    selected = kernel.kernel_of(inputs, operator.outputs(*inputs))
    assert selected is not kernel.kernel_of(sample, operator.outputs(*sample))
    _require_good_code(ptx_of(selected, (*inputs, *operator.outputs(*inputs)), len(inputs), (9, 0)), "float32")


@pytest.mark.skipif(NO_CUDA_CORE is not None, reason=str(NO_CUDA_CORE))
@pytest.mark.parametrize(
    ("operator", "backend", "dtype"), [case for case in _cases((BACKENDS["cuda_raw"],)) if case.values[2] in TYPES]
)
def test_cuda_cpp_compiles(operator: Any, backend: Backend, dtype: str) -> None:
    kernel = operator.kernels[backend]
    for capability in CAPABILITIES:
        content, *_ = define(kernel.source, kernel.name(dtype), ()).compile(_name(capability))
        assert content.startswith(b"\x7fELF")


@pytest.mark.skipif(
    BACKENDS["numba_cuda_mlir"].missing() is not None, reason=str(BACKENDS["numba_cuda_mlir"].missing())
)
@pytest.mark.parametrize(("operator", "backend", "dtype"), _cases((BACKENDS["numba_cuda_mlir"],)))
def test_the_successor_of_numba_cuda_compiles(
    operator: Any, backend: Backend, dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert code_of_mlir(operator, backend, dtype, monkeypatch)


@pytest.mark.parametrize(("operator", "backend", "dtype"), _cases((BACKENDS["triton"], BACKENDS["cutile_kernel"])))
def test_a_compiler_of_cubins_compiles_it(operator: Any, backend: Backend, dtype: str) -> None:
    if why := backend.missing():
        pytest.skip(why)
    inputs = operator.sample(dtype, SIZE, 0)
    with precision(dtype):
        calls = calls_in(operator.build(backend, inputs), *inputs)
    assert len(calls) == operator.calls(backend)
    for call, (major, minor) in itertools.product(calls, CAPABILITIES):
        code = call.definition.compile(call.signature, 10 * major + minor)
        assert getattr(code, "content", code).startswith(b"\x7fELF")


def _require_good_code(code: str, dtype: str) -> None:
    """Requires that a kernel writes, keeps nothing in local memory, calls nothing, and has no float64 by mistake."""
    assert ".entry" in code
    assert re.search(r"st\.global|red\.|atom\.", code)
    # Numba-CUDA computes float16 by functions of NVIDIA's header, which it links later: this code can only call them.
    if "__half" not in code:
        assert ".local" not in code
        assert not re.search(r"call\.uni|\bcall\b \(", code)
    assert dtype == "float64" or ".f64" not in code


def _wrapped(operator: Any, kernel: Any, dtype: str, monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, int]]:
    """The Warp kernels that an operator calls for a sample, each with its threads in a block."""
    inputs = operator.sample(dtype, SIZE, 0)
    outs = operator.outputs(*inputs)
    found: list[tuple[Any, int]] = []

    def record(kernel: Any, *_: Any, **options: Any) -> Any:
        found.append((kernel, options.get("block_dim") or 256))
        return lambda *arrays: arrays

    if isinstance(kernel, WarpKernel):
        record(kernel.kernel(dtype), **kernel.options(inputs, outs))
    else:
        monkeypatch.setattr(bridge, "jax_kernel", record)
        kernel.make(inputs, outs)
        assert len(found) == kernel.calls
    return found


WARP = [
    case for case in _cases((BACKENDS["warp"], BACKENDS["warp_tile"])) if case.values[2] not in ("float64", "int64")
]
"""Kernels of 64-bit dtypes are the same but for their types, and could not compute in a wider one by mistake."""


@pytest.mark.parametrize(("operator", "backend", "dtype"), WARP)
def test_warp_kernel_compiles_and_computes_in_its_own_precision(
    operator: Any, backend: Backend, dtype: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    for kernel, threads in _wrapped(operator, operator.kernels[backend], dtype, monkeypatch):
        kernel.module.options["block_dim"] = threads
        wp.compile_aot_module(kernel.module, arch=90, module_dir=tmp_path, use_ptx=True)
        (path,) = tmp_path.glob("*.ptx")
        ptx = path.read_text()
        path.unlink()
        entries = re.findall(r"\.entry (\w+)", ptx)
        assert any(entry.endswith("_forward") for entry in entries)
        backward = any(entry.endswith("_backward") for entry in entries)
        assert backward or not operator.has_gradient(backend, dtype) or not has_adjoint(kernel)
        _require_good_code(ptx[ptx.index(".entry") :], dtype)  # what comes before are constants of Warp's library
