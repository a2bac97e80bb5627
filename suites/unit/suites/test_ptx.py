"""Every CUDA kernel of the built-in operators compiles for three generations of GPUs, with no GPU present."""

from __future__ import annotations

import re
from typing import Any

import pytest
import warp as wp

import bridge
from bridge.languages.warp.generated import has_adjoint
from suites.backends import numba_cuda_blocks as cuda_kernels
from suites.backends.backend import Backend
from suites.backends.warp import WarpKernel
from suites.ops import operators
from suites.unit.suites.ptx import SIZE, launches_of, ptx_of

NUMBA_CUDA = pytest.mark.skipif(cuda_kernels.MISSING is not None, reason=str(cuda_kernels.MISSING))

CAPABILITIES = ((8, 0), (9, 0), (10, 0))
CUDA_BACKENDS = (Backend.NUMBA_CUDA, Backend.NUMBA_CUDA_CALLABLE)
WARP_BACKENDS = (Backend.WARP, Backend.WARP_TILE)


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
@pytest.mark.parametrize("capability", CAPABILITIES, ids=_name)
@pytest.mark.parametrize(("operator", "backend", "dtype"), _cases(CUDA_BACKENDS))
def test_kernel_compiles_and_computes_in_its_own_precision(
    operator: Any, backend: Backend, dtype: str, capability: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    kernel = operator.kernels[backend]
    for dispatcher, arrays, readonly in launches_of(operator, kernel, dtype, monkeypatch):
        ptx = ptx_of(dispatcher, arrays, readonly, capability)
        assert re.search(rf"^\.target {_name(capability)}$", ptx, re.MULTILINE)
        assert ".visible .entry" in ptx
        assert re.search(r"st\.global|red\.|atom\.", ptx)
        assert ".local" not in ptx  # nothing is kept in memory that belongs in registers
        assert not re.search(r"call\.uni|\bcall\b \(", ptx)  # everything is inlined
        if dtype != "float64":  # the classic mistake: a float literal, or an index of mixed signs
            assert ".f64" not in ptx


SELECTED = (("csr_matmat", "odd_columns"), ("csr_matmat", "one_column"), ("csr_binary_matvec", "one_long_row"))
"""Operators and edge cases, each with another kernel than samples have."""


@NUMBA_CUDA
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("name", "edge"), SELECTED)
def test_a_kernel_for_other_shapes_compiles_too(name: str, edge: str, dtype: str) -> None:
    operator = operators()[name]
    kernel, inputs = operator.kernels[Backend.NUMBA_CUDA], operator.edges(dtype)[edge]
    sample = operator.sample(dtype, SIZE, 0)
    selected = kernel.kernel_of(inputs, operator.outputs(*inputs))
    assert selected is not kernel.kernel_of(sample, operator.outputs(*sample))
    ptx = ptx_of(selected, (*inputs, *operator.outputs(*inputs)), len(inputs), (9, 0))
    assert ".local" not in ptx
    assert dtype == "float64" or ".f64" not in ptx


def _wrapped(
    operator: Any, kernel: Any, dtype: str, monkeypatch: pytest.MonkeyPatch, inputs: Any = None
) -> list[tuple[Any, int]]:
    """The Warp kernels that an operator calls, for a sample or other inputs, each with its threads in a block."""
    inputs = operator.sample(dtype, SIZE, 0) if inputs is None else inputs
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


GENERATIONS_DIFFER = (("scatter_add", "float32"), ("sigmoid", "float16"), ("matvec", "float32"))
"""Operators and dtypes: Warp's library tells generations of GPUs apart in atomic operations and in half precision."""


def _warp_cases() -> list[Any]:
    """A choice, since each takes Warp a second: every kernel for one generation, a few for all.

    Kernels of 64-bit dtypes are the same but for their types, and could not compute in a wider one by mistake.
    """
    chosen = [
        (case, capability)
        for case in _cases(WARP_BACKENDS)
        for capability in CAPABILITIES
        if case.values[2] not in ("float64", "int64")
        and (capability == (9, 0) or (case.values[0].name, case.values[2]) in GENERATIONS_DIFFER)
    ]
    return [pytest.param(*case.values, capability, id=f"{case.id}-{_name(capability)}") for case, capability in chosen]


@pytest.mark.parametrize(("operator", "backend", "dtype", "capability"), _warp_cases())
def test_warp_kernel_compiles_and_computes_in_its_own_precision(
    operator: Any,
    backend: Backend,
    dtype: str,
    capability: tuple[int, int],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Any,
) -> None:
    for kernel, threads in _wrapped(operator, operator.kernels[backend], dtype, monkeypatch):
        kernel.module.options["block_dim"] = threads
        wp.compile_aot_module(kernel.module, arch=10 * capability[0] + capability[1], module_dir=tmp_path, use_ptx=True)
        (path,) = tmp_path.glob("*.ptx")
        ptx = path.read_text()
        path.unlink()
        assert re.search(rf"^\.target {_name(capability)}$", ptx, re.MULTILINE)
        entries = re.findall(r"\.entry (\w+)", ptx)
        assert any(entry.endswith("_forward") for entry in entries)
        backward = any(entry.endswith("_backward") for entry in entries)
        assert backward or not operator.has_gradient(backend, dtype) or not has_adjoint(kernel)
        code = ptx[ptx.index(".entry") :]  # what comes before are constants of Warp's library
        assert re.search(r"st\.global|red\.|atom\.", code)
        assert ".local" not in code  # nothing is kept in memory that belongs in registers
        assert not re.search(r"call\.uni|\bcall\b \(", code)  # everything is inlined
        if dtype != "float64":  # the classic mistake: a Python float, or a constant of float64
            assert ".f64" not in code
