"""Compiles Numba-CUDA kernels to PTX with no GPU present, for the tests that read it."""

from __future__ import annotations

import functools
from types import SimpleNamespace
from typing import Any

import pytest

from suites.backends.numba_cuda import CudaKernel

SIZE = 1 << 20
"""Enough for reductions to take two passes."""


class _Recorded:
    """Stands in for a dispatcher, and notes the arguments of its launches."""

    def __init__(self, dispatcher: Any, launches: list[Any]):
        self._dispatcher, self._launches = dispatcher, launches

    def __getitem__(self, launch: Any) -> Any:
        grid, block, _ = launch
        assert grid > 0
        assert block > 0
        return lambda *arrays: self._launches.append((self._dispatcher, arrays))


def launches_of(operator: Any, kernel: Any, dtype: str, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Returns the dispatchers that an operator launches, each with its arrays and how many of them are read-only."""
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
