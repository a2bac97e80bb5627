"""Compiles Numba-CUDA kernels to PTX with no GPU present, for the tests that read it."""

import functools
import inspect
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from suites.backends.numba_cuda import CudaKernel
from suites.numerics.precision import precision
from suites.unit.bridge.entries import call_in

SIZE = 1 << 20
"""Enough for reductions to take two passes."""

FRONT = (9, 0)
"""The GPU that Numba makes LLVM code for."""


def launches_of(operator: Any, kernel: Any, dtype: str, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Returns the dispatchers that an operator launches, each with its arrays and how many of them are read-only."""
    inputs = operator.sample(dtype, SIZE, 0)
    outs = operator.outputs(*inputs)
    if isinstance(kernel, CudaKernel):
        launch = kernel.launch(inputs, outs)
        assert launch.get("grid") or launch["launch_dims"]
        return [(kernel.kernel_of(inputs, outs), (*inputs, *outs), len(inputs))]
    from numba import cuda
    from numba.cuda.dispatcher import CUDADispatcher

    launches: list[Any] = []

    def configured(dispatcher: Any, configuration: Any) -> Any:
        grid, block, *_ = configuration
        assert grid > 0
        assert block > 0
        return lambda *arrays: launches.append((dispatcher, arrays, 0))

    def array_without_memory(size: int, dtype: Any) -> Any:
        return SimpleNamespace(shape=(size,), dtype=np.dtype(dtype))

    # Replaced in Numba itself: the function may launch, and make arrays, in helpers of any module.
    with monkeypatch.context() as replaced:
        replaced.setattr(CUDADispatcher, "__getitem__", configured)
        replaced.setattr(cuda, "device_array", array_without_memory)
        kernel.function(*inputs, *[SimpleNamespace(shape=out.shape, dtype=out.dtype) for out in outs], None)
    assert launches, f"{operator.name} launches no kernel"
    return launches


def code_of_mlir(operator: Any, backend: Any, dtype: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Compiles the kernel of an operator by numba-cuda-mlir: returns what its call is published as."""
    from bridge.languages.numba_cuda import cuda_jit, mlir

    monkeypatch.setattr(cuda_jit, "require_mlir", lambda kernel: None)
    monkeypatch.setattr(mlir, "local_ordinals", lambda: [0])
    monkeypatch.setattr(mlir.driver, "compute_capability", lambda ordinal: 90)
    inputs = operator.sample(dtype, SIZE, 0)
    with precision(dtype):
        return call_in(operator.build(backend, inputs), *inputs).describe("cuda")


def ptx_of(
    dispatcher: Any, arrays: Any, readonly: int, capability: tuple[int, int], front: tuple[int, int] = FRONT
) -> str:
    """Returns the PTX of a kernel.

    Args:
        dispatcher: The kernel.
        arrays: What it is called with.
        readonly: How many of the arrays are inputs.
        capability: The GPU that NVVM makes PTX for.
        front: The GPU that Numba makes LLVM code for. ``test_ptx`` shows that this code does not depend on it.
    """
    from bridge.languages.numba_cuda.cuda_compilation import numba_type
    from bridge.signature.arguments import ArrayType

    types = tuple(
        numba_type(ArrayType(str(array.dtype), (None,) * len(array.shape), index >= readonly))
        for index, array in enumerate(arrays)
    )
    return "\n".join(_library(dispatcher, types, front).get_asm_strs(cc=capability))


@functools.lru_cache(maxsize=16)
def _library(dispatcher: Any, types: tuple[Any, ...], front: tuple[int, int]) -> Any:
    """Returns the library with the LLVM code of a kernel. To make this code is nine tenths of a compilation."""
    from numba import cuda
    from numba.cuda import dispatcher as dispatchers
    from numba.cuda.codegen import CUDACodeLibrary

    function = dispatcher.py_func
    libraries = []
    translate = CUDACodeLibrary.get_asm_strs

    def noted(library: Any, cc: Any = None) -> Any:
        libraries.append(library)
        return translate(library, cc=cc)

    _forget(function)
    with pytest.MonkeyPatch.context() as replaced:
        replaced.setattr(CUDACodeLibrary, "get_asm_strs", noted)
        # Numba asks the current device what to compile device functions for, and keeps what it compiled.
        replaced.setattr(dispatchers, "get_current_device", lambda: SimpleNamespace(compute_capability=front))
        try:
            bounds = dispatcher.targetoptions.get("launch_bounds")
            cuda.compile(function, types, device=False, abi="numba", cc=front, output="ptx", launch_bounds=bounds)
        finally:
            _forget(function)
    return libraries[0]


def _forget(function: Any, seen: set[int] | None = None) -> None:
    """Drops what was compiled of the device functions that a function calls."""
    seen = set() if seen is None else seen
    of_module = [function.__globals__.get(name) for name in function.__code__.co_names]
    for value in (*of_module, *inspect.getclosurevars(function).nonlocals.values()):
        called = getattr(value, "py_func", None)
        if called is None or id(value) in seen or not value.targetoptions.get("device"):
            continue
        seen.add(id(value))
        value.overloads.clear()
        _forget(called, seen)
