"""Makes the native plan of a Warp launch on XLA's CUDA stream."""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import warp as wp

from bridge.compat.warp import LIBRARY, machine_code
from bridge.cuda.carried_cubins import Cubin, cubins_of
from bridge.cuda.launch_shape import LaunchShape
from bridge.cuda.machine_code import check_launch
from bridge.errors import BridgeError, LaunchError, PlatformError
from bridge.ffi.cuda import driver
from bridge.ffi.cuda.devices import Dimensions, handles_table, local_ordinals
from bridge.ffi.plans.device import DevicePlan, Launch, Patch
from bridge.kernel.arguments import Signature
from bridge.languages.warp.generated import Generated, PackedLaunch, load, pack
from bridge.languages.warp.operations import ARGUMENTS, ITSELF, RecordedOperation, WarpLaunch, words_of


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
    recorded = {ordinal: pack(made, launch, on) for ordinal, on in devices(made.kernel.key).items()}
    packed = {ordinal: one for ordinal, one in recorded.items() if one is not None}  # empty if no thread runs
    launches = [device_launch(made, launch.dims, launch.backward, packed)] if packed else []
    alignments = alignments_of([made.source], len(signature.arrays))
    return DevicePlan(launches, alignments, packed)


def carried_device(made: Generated, launch: WarpLaunch, signature: Signature) -> tuple[str, bytes]:
    """The machine code of a kernel for the GPUs of this process, and the kind of what an exported program holds.

    Raises:
        BridgeError: The program is for other GPUs, for which Warp compiles nothing here.
    """
    here = {driver.compute_capability(at): on for at, on in devices(made.kernel.key).items()}

    def cubin(capability: int) -> Cubin:
        if capability not in here:
            raise BridgeError(f"Warp compiles it for sm_{capability} only where JAX has such a GPU")
        packed = pack(made, launch, here[capability])
        assert packed is not None
        end = f"cuda_kernel_{'backward' if launch.backward else 'forward'}"
        ordinal = local_ordinals()[[*here].index(capability)]
        made_launch = replace(device_launch(made, launch.dims, launch.backward, {ordinal: packed}), handles=())
        return Cubin(*machine_code(packed.module_exec, end), made_launch)

    return cubins_of(cubin, 0 in launch.dims, alignments_of([made.source], len(signature.arrays)))


def devices(name: str) -> dict[int, Any]:
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


def repeat_on_device(
    name: str, operations: Sequence[tuple[RecordedOperation, Generated | None]], buffers: Sequence[int], count: int,
    homes: Sequence[Any], alive: Any,
) -> DevicePlan:  # fmt: skip
    """The plan that repeats recorded launches on CUDA.

    Args:
        name: The function that was recorded.
        operations: The launches, with the code of their kernels.
        buffers: The number that each buffer of the recording has in a call.
        count: How many buffers the call has.
        homes: Warp's devices that have arrays from outside. The launches are only for these.
        alive: What the operations refer to.

    Raises:
        PlatformError, KernelCompileError, LaunchError: As for :func:`build_device`.
    """
    on = {ordinal: device for ordinal, device in devices(name).items() if all(home == device for home in homes)}
    if not on:
        raise PlatformError(f"{name} uses arrays on {', '.join(map(str, homes))}. Put them on one of JAX's devices.")
    loaded = functools.cache(lambda code, ordinal, backward: load(code, on[ordinal], backward))
    launches = []
    for op, code in operations:
        assert op.launch is not None
        assert code is not None
        content = op.launch.bounds + np.array(op.block[ARGUMENTS:]).tobytes()[len(op.launch.bounds) :]
        patches = [(word - ARGUMENTS, buffers[at], more) for word, at, more in op.patches if at != ITSELF]
        packed = {
            ordinal: PackedLaunch(module, hooks, entry, content, op.launch.layout, patches)
            for ordinal in on
            for module, hooks, entry, _ in [loaded(code, ordinal, op.launch.backward)]
        }
        launches.append(device_launch(code, (op.launch.threads,), op.launch.backward, packed))
    return DevicePlan(launches, alignments_of([code.source for _, code in operations if code], count), (loaded, alive))


def device_launch(made: Generated, dims: tuple[int, ...], backward: bool, packed: Mapping[int, PackedLaunch]) -> Launch:
    """A launch that is packed for each device, by ordinal, after checking it against the limits of each.

    Raises:
        LaunchError: It is over a limit, or needs what no JAX program has.
    """
    kernel = made.kernel
    for ordinal, one in packed.items():
        if getattr(getattr(one.hooks, "det_launch_meta", None), "needs_deterministic", False):
            raise LaunchError(
                f"{kernel.key} is compiled in Warp's deterministic mode, which needs buffers that no JAX program has. "
                "Switch the mode off for this kernel (deterministic=warp.DeterministicMode.NOT_GUARANTEED)."
            )
        shared_bytes = one.hooks.backward_smem_bytes if backward else one.hooks.forward_smem_bytes
        shape = launch_shape(kernel, dims, made.threads, int(shared_bytes))
        with driver.current(ordinal):
            check_launch(kernel.key, one.entry, shape, False, ordinal)
    return Launch(
        name=kernel.key,
        handles=handles_table({ordinal: one.entry for ordinal, one in packed.items()}),
        grid=shape.grid,
        block=shape.block,
        shared_bytes=shape.shared_bytes,
        blob=words_of(one.content),
        parameters=one.layout.offsets,
        patches=tuple(Patch(*patch) for patch in one.patches),
        sizes=one.layout.sizes,
        compiler=LIBRARY.name,
    )


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
