"""Every kernel for CUDA compiles for three generations of GPUs, on any machine, and does what its dtype says."""

from __future__ import annotations

import functools
import re
from types import SimpleNamespace
from typing import Any

import pytest
import warp as wp

import bridge
from suites.backends import numba_cuda_blocks as cuda_kernels
from suites.backends.backend import Backend, CudaCallable, CudaKernel, WarpKernel
from suites.ops import operators

NUMBA_CUDA = pytest.mark.skipif(cuda_kernels.MISSING is not None, reason=str(cuda_kernels.MISSING))

CAPABILITIES = ((8, 0), (9, 0), (10, 0))
CUDA_BACKENDS = (Backend.NUMBA_CUDA, Backend.NUMBA_CUDA_CALLABLE)
WARP_BACKENDS = (Backend.WARP, Backend.WARP_TILE)
SIZE = 1 << 20
"""Enough for reductions to take two passes."""


def _cases(backends: tuple[Backend, ...]) -> list[Any]:
    return [
        pytest.param(operator, backend, dtype, id=f"{operator.name}-{backend.id}-{dtype}")
        for operator in operators().values()
        for backend in backends
        if backend in operator.kernels
        for dtype in operator.dtypes
    ]


class _Recorded:
    """Stands in for a dispatcher that is launched, and notes its arguments."""

    def __init__(self, dispatcher: Any, launches: list[Any]):
        self._dispatcher, self._launches = dispatcher, launches

    def __getitem__(self, launch: Any) -> Any:
        grid, block, _ = launch
        assert grid > 0
        assert block > 0
        return lambda *arrays: self._launches.append((self._dispatcher, arrays))


def _launches(operator: Any, kernel: Any, dtype: str, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The dispatchers that an operator launches, each with its arrays and how many of them are read-only."""
    inputs = operator.sample(dtype, SIZE, 0)
    outs = operator.outputs(*inputs)
    if isinstance(kernel, CudaKernel):
        assert kernel.launch(inputs, outs)["grid"]
        return [(kernel.dispatcher, (*inputs, *outs), len(inputs))]
    launches: list[Any] = []
    function = kernel.function
    dispatchers = {name: value for name, value in function.__globals__.items() if hasattr(value, "py_func")}
    for name, dispatcher in dispatchers.items():
        if name in function.__code__.co_names:
            monkeypatch.setitem(function.__globals__, name, _Recorded(dispatcher, launches))
    fake = SimpleNamespace(device_array=lambda size, dtype: SimpleNamespace(shape=(size,), dtype=dtype))
    monkeypatch.setitem(function.__globals__, "cuda", fake)
    function(*inputs, *[SimpleNamespace(shape=out.shape, dtype=out.dtype) for out in outs], None)
    monkeypatch.undo()
    return [(dispatcher, arrays, 0) for dispatcher, arrays in launches]


@functools.cache
def _driverless(capability: tuple[int, int]) -> Any:
    return SimpleNamespace(compute_capability=capability)


def _ptx(dispatcher: Any, arrays: Any, readonly: int, capability: tuple[int, int], monkeypatch: Any) -> str:
    from numba import cuda
    from numba.cuda import dispatcher as dispatchers

    from bridge.languages.numba_cuda.cuda_jit import numba_type

    function = dispatcher.py_func
    types = tuple(
        numba_type(function.__name__, str(array.dtype), len(array.shape), index >= readonly)
        for index, array in enumerate(arrays)
    )
    # Numba asks the current device what to compile device functions for, and keeps what it compiled.
    monkeypatch.setattr(dispatchers, "get_current_device", lambda: _driverless(capability))
    _forget(function)
    try:
        ptx, _ = cuda.compile(function, types, device=False, abi="numba", cc=capability, output="ptx")
    finally:
        _forget(function)
    return str(ptx)


def _forget(function: Any, seen: set[int] | None = None) -> None:
    """Drops what was compiled of the device functions that a function calls."""
    seen = set() if seen is None else seen
    for name in function.__code__.co_names:
        value = function.__globals__.get(name)
        called = getattr(value, "py_func", None)
        if called is None or id(value) in seen or not value.targetoptions.get("device"):
            continue
        seen.add(id(value))
        value.overloads.clear()
        _forget(called, seen)


def _name(capability: tuple[int, int]) -> str:
    return "sm_{}{}".format(*capability)


@NUMBA_CUDA
@pytest.mark.parametrize("capability", CAPABILITIES, ids=_name)
@pytest.mark.parametrize(("operator", "backend", "dtype"), _cases(CUDA_BACKENDS))
def test_kernel_compiles_and_computes_in_its_own_precision(
    operator: Any, backend: Backend, dtype: str, capability: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    kernel = operator.kernels[backend]
    for dispatcher, arrays, readonly in _launches(operator, kernel, dtype, monkeypatch):
        ptx = _ptx(dispatcher, arrays, readonly, capability, monkeypatch)
        assert re.search(rf"^\.target {_name(capability)}$", ptx, re.MULTILINE)
        assert ".visible .entry" in ptx
        assert re.search(r"st\.global|red\.|atom\.", ptx)
        assert ".local" not in ptx  # nothing is kept in memory that belongs in registers
        assert not re.search(r"call\.uni|\bcall\b \(", ptx)  # everything is inlined
        if dtype != "float64":  # the classic mistake: a float literal, or an index of mixed signs
            assert ".f64" not in ptx


def _wrapped(operator: Any, kernel: Any, dtype: str, monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, int]]:
    """The Warp kernels that an operator calls, each with the number of threads in a block."""
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


GENERATIONS_DIFFER = (("scatter_add", "float32"), ("scale_add", "float16"), ("matvec", "float32"))
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
        assert any(entry.endswith("_backward") for entry in entries) or not operator.has_gradient(backend, dtype)
        code = ptx[ptx.index(".entry") :]  # what comes before are constants of Warp's library
        assert re.search(r"st\.global|red\.|atom\.", code)
        assert ".local" not in code  # nothing is kept in memory that belongs in registers
        assert not re.search(r"call\.uni|\bcall\b \(", code)  # everything is inlined
        if dtype != "float64":  # the classic mistake: a Python float, or a constant of float64
            assert ".f64" not in code


@pytest.mark.parametrize("operator", operators().values(), ids=operators())
def test_operator_has_a_cuda_kernel(operator: Any) -> None:
    kernels = [operator.kernels[backend] for backend in CUDA_BACKENDS if backend in operator.kernels]
    assert len(kernels) == 1
    assert isinstance(kernels[0], CudaKernel | CudaCallable)
    replayed = operator.kernels.get(Backend.NUMBA_CUDA_REPLAY)
    assert (replayed is not None) == isinstance(kernels[0], CudaCallable)
