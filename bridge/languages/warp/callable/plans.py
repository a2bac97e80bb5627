"""Makes the native plans of a recording on the CPU and on CUDA, and the plan that calls the function in Python."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import warp as wp

from bridge.errors import PlatformError
from bridge.ffi.plans.device import DevicePlan, Launch
from bridge.ffi.plans.host import HostPlan, python_plan
from bridge.languages.warp.callable.recording import Operations
from bridge.languages.warp.cpu_plan import cpu_device, take_error, works_on_tiles
from bridge.languages.warp.cuda_plan import alignments_of, device_launch, devices
from bridge.languages.warp.dtypes import LOCK
from bridge.languages.warp.launches import WarpLaunch
from bridge.languages.warp.operations import ARGUMENTS, ITSELF, plan_of
from bridge.languages.warp.packing import PackedLaunch, load


def plan_host(name: str, operations: Operations, buffers: Sequence[int], count: int, alive: Any) -> HostPlan:
    """The plan that repeats operations on the CPU."""
    device = cpu_device(name)
    loaded = functools.cache(lambda code, backward: load(code, device, backward))
    codes = [loaded(code, op.launch.backward) if op.launch else None for op, code in operations]
    made = [replace(op, entry=code[-1]) if code else op for (op, _), code in zip(operations, codes, strict=True)]
    threads = max((code.threads for _, code in operations if code), default=1)
    shared = None in alive[1].uses or any(code and works_on_tiles(code) for _, code in operations)
    return plan_of(made, buffers, take_error(threads), shared, (codes, alive))


def plan_device(name: str, operations: Operations, buffers: Sequence[int], count: int, alive: Any) -> DevicePlan:
    """The plan that repeats operations, all of them launches, on CUDA."""
    launches, loaded = recorded_launches(name, operations, buffers, alive[1].homes)
    alignments = alignments_of((code.source for _, code in operations if code), count)
    return DevicePlan(launches, alignments, (loaded, alive))


def plan_python(
    name: str, function: Callable[[Any, Sequence[int]], None], platform: str, count: int, homes: Sequence[Any]
) -> HostPlan:
    """The plan that calls a function of Warp's device and of addresses in Python, on XLA's stream."""

    def call(stream: int, ordinal: int, addresses: Sequence[int]) -> None:
        device = cpu_device(name) if platform == "cpu" else wp.get_device(f"cuda:{ordinal}")
        if elsewhere := [home for home in homes if home != device]:
            raise PlatformError(f"it runs on {device}, but uses an array on {elsewhere[0]}. Put both on one.")
        scope: Any = wp.ScopedDevice(device) if device.is_cpu else wp.ScopedStream(_stream(ordinal, stream), False)
        with LOCK, scope:
            function(device, addresses)

    return python_plan(name, call, count)


@functools.cache
def _stream(ordinal: int, stream: int) -> wp.Stream:
    return wp.Stream(wp.get_cuda_device(ordinal), cuda_stream=stream)


def recorded_launches(
    name: str, operations: Operations, buffers: Sequence[int], homes: Sequence[Any]
) -> tuple[list[Launch], Any]:
    """The launches of a recording, and what keeps their machine code loaded on each of JAX's local GPUs.

    Args:
        name: The function that was recorded.
        operations: The launches, with the code of their kernels.
        buffers: The number that each buffer of the recording has in a call.
        homes: Warp's devices that have arrays from outside. The launches are only for these.

    Raises:
        PlatformError, KernelCompileError, LaunchError: As for :func:`build_device`.
    """
    launches: list[Launch] = []
    on = {ordinal: device for ordinal, device in devices(name).items() if all(home == device for home in homes)}
    if not on:
        raise PlatformError(f"{name} uses arrays on {', '.join(map(str, homes))}. Put them on one of JAX's devices.")
    loaded = functools.cache(lambda code, ordinal, backward: load(code, on[ordinal], backward))
    for op, code in operations:
        assert op.launch is not None
        assert code is not None
        content = op.launch.bounds + np.array(op.block[ARGUMENTS:]).tobytes()[len(op.launch.bounds) :]
        words = tuple(np.frombuffer(content, np.int64).tolist())
        patches = tuple((word - ARGUMENTS, buffers[at], more) for word, at, more in op.patches if at != ITSELF)
        packed = {
            ordinal: PackedLaunch(module, hooks, code.threads, entry, words, op.launch.layout, patches)
            for ordinal in on
            for module, hooks, entry in [loaded(code, ordinal, op.launch.backward)]
        }
        launch = WarpLaunch((op.launch.threads,), code.threads, op.launch.backward, ())
        launches.append(device_launch(code.kernel, launch, packed))
    return launches, loaded
