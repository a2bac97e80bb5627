"""Compiles Numba-CUDA kernels to PTX with no GPU present, for the tests that read it."""

from __future__ import annotations

import functools
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from suites.backends.numba_cuda import CudaKernel

SIZE = 1 << 20
"""Enough for reductions to take two passes."""


def launches_of(operator: Any, kernel: Any, dtype: str, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Returns the dispatchers that an operator launches, each with its arrays and how many of them are read-only."""
    inputs = operator.sample(dtype, SIZE, 0)
    outs = operator.outputs(*inputs)
    if isinstance(kernel, CudaKernel):
        assert kernel.launch(inputs, outs)["grid"]
        return [(kernel.kernel_of(inputs, outs), (*inputs, *outs), len(inputs))]
    from numba import cuda
    from numba.cuda.dispatcher import CUDADispatcher

    launches: list[Any] = []

    def configured(dispatcher: Any, configuration: Any) -> Any:
        grid, block, _ = configuration
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


@functools.cache
def _driverless(capability: tuple[int, int]) -> Any:
    return SimpleNamespace(compute_capability=capability)


def ptx_of(dispatcher: Any, arrays: Any, readonly: int, capability: tuple[int, int], monkeypatch: Any) -> str:
    from numba import cuda
    from numba.cuda import dispatcher as dispatchers

    from bridge.languages.numba_cuda.cuda_compilation import numba_type
    from bridge.signature.array_types import ArrayType

    function = dispatcher.py_func
    types = tuple(
        numba_type(function.__name__, ArrayType(str(array.dtype), (None,) * len(array.shape), index >= readonly))
        for index, array in enumerate(arrays)
    )
    # Numba asks the current device what to compile device functions for, and keeps what it compiled.
    monkeypatch.setattr(dispatchers, "get_current_device", lambda: _driverless(capability))
    _forget(function)
    try:
        bounds = dispatcher.targetoptions.get("launch_bounds")
        ptx, _ = cuda.compile(
            function, types, device=False, abi="numba", cc=capability, output="ptx", launch_bounds=bounds
        )
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
