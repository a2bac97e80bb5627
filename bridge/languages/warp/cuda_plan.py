"""Makes the native plan of a Warp launch on XLA's CUDA stream."""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import warp as wp

from bridge.errors import LaunchError, PlatformError
from bridge.ffi.cuda import driver
from bridge.ffi.cuda.devices import Dimensions, handles_table, local_ordinals
from bridge.ffi.plans.device import DevicePlan, Launch, Patch
from bridge.languages.launch_shape import LaunchShape, check_limits
from bridge.languages.warp.generated import Generated
from bridge.languages.warp.launches import WarpLaunch
from bridge.languages.warp.packing import PackedLaunch, load, pack
from bridge.languages.warp.replay import ARGUMENTS, ITSELF, Operation
from bridge.signature.array_types import Signature


def build_device(made: Generated, launch: WarpLaunch, signature: Signature) -> DevicePlan:
    """Compiles a kernel for CUDA and loads it on each of JAX's local GPUs.

    Args:
        made: The kernel and its code.
        launch: The launch.
        signature: The types of the call.

    Raises:
        PlatformError: Warp supports no GPU of this machine.
        KernelCompileError: Warp cannot compile the kernel.
        LaunchError: The launch is over a limit of a device.
    """
    kernel = made.kernel
    recorded = {ordinal: pack(made, launch, "cuda", on) for ordinal, on in _devices(kernel.key).items()}
    packed = {ordinal: one for ordinal, one in recorded.items() if one is not None}  # empty if no thread runs
    launches = [_device_launch(kernel, launch, packed)] if packed else []
    alignments = alignments_of([made.source], len(signature.arrays))
    return DevicePlan(launches, alignments, packed)


def recorded_launches(
    name: str, operations: Sequence[tuple[Operation, Any]], buffers: Sequence[int], homes: Sequence[Any]
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
    devices = {ordinal: on for ordinal, on in _devices(name).items() if all(home == on for home in homes)}
    if not devices:
        raise PlatformError(f"{name} uses arrays on {', '.join(map(str, homes))}. Put them on one of JAX's devices.")
    loaded = functools.cache(lambda made, ordinal, backward: load(made, devices[ordinal], backward))
    for op, made in operations:
        assert op.launch is not None
        content = op.launch.bounds + np.array(op.block[ARGUMENTS:]).tobytes()[len(op.launch.bounds) :]
        words = tuple(np.frombuffer(content, np.int64).tolist())
        patches = tuple((word - ARGUMENTS, buffers[at], more) for word, at, more in op.patches if at != ITSELF)
        packed = {
            ordinal: PackedLaunch(module, hooks, made.threads, entry, words, (), op.launch.offsets, patches)
            for ordinal in devices
            for module, hooks, entry in [loaded(made, ordinal, op.launch.backward)]
        }
        launch = WarpLaunch((op.launch.threads,), made.threads, op.launch.backward, ())
        launches.append(_device_launch(made.kernel, launch, packed))
    return launches, loaded


def _devices(name: str) -> dict[int, Any]:
    """Warp's devices of JAX's local GPUs, by ordinal."""
    if not wp.is_cuda_available():
        raise PlatformError(
            f"{name} cannot run on CUDA: Warp finds no CUDA device that it supports. See what warp.init() prints."
        )
    return {ordinal: wp.get_cuda_device(ordinal) for ordinal in local_ordinals()}


def alignments_of(sources: Iterable[str], count: int) -> list[int]:
    """The bytes that the address of each of ``count`` arrays has to be a multiple of.

    Warp loads vectors and tiles at any address. Only where the kernel says ``aligned=True`` does it load 16 bytes of a
    tile at once without a look at the address; this is the second truth value in the generated code.
    """
    aligned = re.compile(r"\bwp::(?:adj_)?tile_(?:load|store)<[^()]*, (?:true|false), true[,>]")
    return [16] * count if any(map(aligned.search, sources)) else []


def _check_device(kernel: wp.Kernel, launch: WarpLaunch, packed: Mapping[int, PackedLaunch]) -> LaunchShape:
    """The shape of a launch, after checking it against the limits of each device."""
    for ordinal, one in packed.items():
        hooks = one.hooks
        if getattr(getattr(hooks, "det_launch_meta", None), "needs_deterministic", False):
            raise LaunchError(
                f"{kernel.key} is compiled in Warp's deterministic mode, which needs buffers that no JAX program has. "
                "Switch the mode off for this kernel (deterministic=warp.DeterministicMode.NOT_GUARANTEED)."
            )
        shared_bytes = hooks.backward_smem_bytes if launch.backward else hooks.forward_smem_bytes
        shape = launch_shape(kernel, launch.dims, one.block_dim, int(shared_bytes))
        with wp.ScopedDevice(wp.get_cuda_device(ordinal)):
            check_limits(kernel.key, shape, driver.limits(one.entry, ordinal), driver.static_shared_bytes(one.entry))
    return shape


def launch_shape(kernel: wp.Kernel, dims: tuple[int, ...], block_dim: int, shared_bytes: int) -> LaunchShape:
    """Grid and block for a number of threads, chosen like Warp's own launcher does.

    A kernel that loops over the grid gets one dimension of blocks. Since 1.16 Warp can also compile a kernel without
    this loop. Such a kernel takes its index from a grid of three dimensions, with at most 2**24 threads in the first.
    """
    blocks = -(-math.prod(dims) // block_dim)
    grid: Dimensions = (min(blocks, 2**31 - 1), 1, 1)
    if not getattr(kernel, "grid_stride", True):
        x = min(blocks, max(1, 2**24 // block_dim))
        y = min(-(-blocks // x), 65535)
        grid = (x, y, -(-blocks // (x * y)))
    return LaunchShape(grid, (block_dim, 1, 1), shared_bytes)


def _device_launch(kernel: wp.Kernel, launch: WarpLaunch, packed: Mapping[int, PackedLaunch]) -> Launch:
    shape, one = _check_device(kernel, launch, packed), next(iter(packed.values()))
    return Launch(
        name=kernel.key,
        handles=handles_table({ordinal: one.entry for ordinal, one in packed.items()}),
        grid=shape.grid,
        block=shape.block,
        shared_bytes=shape.shared_bytes,
        blob=one.content,
        parameters=(0, *one.offsets),
        patches=tuple(Patch(*patch) for patch in one.patches),
    )
