"""Makes the native plan of a Warp launch on XLA's CUDA stream."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import warp as wp

from bridge.errors import AbiError, LaunchError, PlatformError
from bridge.ffi.built import Built
from bridge.ffi.cuda import driver
from bridge.ffi.cuda.embedded import Image
from bridge.ffi.cuda.limits import Dimensions
from bridge.ffi.cuda.ordinals import handles_table, local_ordinals
from bridge.ffi.native.abi import WORD_BYTES
from bridge.ffi.plans.device import DevicePlan, Launch, Patch
from bridge.languages.launch_shape import LaunchShape, check_limits
from bridge.languages.warp.generated import Generated
from bridge.languages.warp.inputs import check_inputs
from bridge.languages.warp.launch_spec import Spec
from bridge.languages.warp.packing import Packed, pack
from bridge.signature.array_types import Signature


def build_device(made: Generated, spec: Spec, signature: Signature) -> Built:
    """Compiles a kernel for CUDA and loads it on each of JAX's local GPUs.

    Args:
        made: The kernel and its code.
        spec: The launch.
        signature: The types of the call.

    Raises:
        PlatformError: Warp supports no GPU of this machine.
        KernelCompileError: Warp cannot compile the kernel.
        LaunchError: The launch is over a limit of a device.
    """
    kernel = made.kernel
    if not wp.is_cuda_available():
        raise PlatformError(
            f"{kernel.key} cannot run on CUDA: Warp finds no CUDA device that it supports. See what warp.init() prints."
        )
    check_inputs(made, spec, signature)
    recorded = {ordinal: pack(made, spec, wp.get_cuda_device(ordinal)) for ordinal in local_ordinals()}
    packed = {ordinal: one for ordinal, one in recorded.items() if one is not None}  # empty if no thread runs
    launches = []
    if packed:
        shape = _check_device(kernel, spec, packed)
        handles = handles_table({ordinal: one.entry for ordinal, one in packed.items()})
        launches.append(_device_launch(kernel.key, handles, shape, next(iter(packed.values()))))

    def images() -> list[dict[int, Image]]:
        of_devices = [_image(kernel, one, ordinal) for ordinal, one in packed.items()]
        return [{image.capability: image for image in of_devices}] * len(launches)

    plan = DevicePlan(kernel.key, signature.input_sizes, signature.output_sizes, launches)
    return Built(plan, packed, images=images)


def _image(kernel: wp.Kernel, packed: Packed, ordinal: int) -> Image:
    """The machine code that Warp has loaded on a device."""
    path = getattr(packed.module_exec, "binary_path", None)
    if path is None or not str(path).endswith(".cubin"):
        raise PlatformError(
            f"the machine code of {kernel.key} cannot be carried along: Warp {wp.__version__} does not say where it "
            "is, or has compiled it to PTX only. Install warp-lang>=1.19, and leave warp.config.cuda_output alone."
        )
    with wp.ScopedDevice(wp.get_cuda_device(ordinal)):
        symbol = driver.function_name(packed.entry)
    return Image(driver.compute_capability(ordinal), symbol, Path(path).read_bytes())


def _check_device(kernel: wp.Kernel, spec: Spec, packed: Mapping[int, Packed]) -> LaunchShape:
    """The shape of a launch, after checking it against the limits of each device and the parameters of the kernel."""
    for ordinal, one in packed.items():
        hooks = one.hooks
        if getattr(getattr(hooks, "det_launch_meta", None), "needs_deterministic", False):
            raise LaunchError(
                f"{kernel.key} is compiled in Warp's deterministic mode, which needs buffers that no JAX program has. "
                "Switch the mode off for this kernel (deterministic=warp.DeterministicMode.NOT_GUARANTEED)."
            )
        shared_bytes = hooks.backward_smem_bytes if spec.backward else hooks.forward_smem_bytes
        shape = launch_shape(kernel, spec.dims, one.block_dim, int(shared_bytes))
        cluster = int(getattr(hooks, "cluster_dim", 1))
        if math.prod(shape.grid) % cluster:
            raise LaunchError(
                f"{kernel.key} has {math.prod(shape.grid)} blocks, expected a multiple of its cluster_dim {cluster}. "
                "Round the launch dimensions up."
            )
        with wp.ScopedDevice(wp.get_cuda_device(ordinal)):
            check_limits(kernel.key, shape, driver.limits(one.entry, ordinal), driver.static_shared_bytes(one.entry))
            sizes = [len(one.bounds), *map(len, one.arguments)]
            taken = driver.parameter_sizes(one.entry)
        if taken and taken != sizes:  # older drivers cannot tell
            raise AbiError(
                f"the machine code of {kernel.key} takes parameters of {taken} bytes, but Warp {wp.__version__} packs "
                f"{sizes}. Use Warp's own warp.jax_kernel."
            )
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


def _device_launch(name: str, handles: tuple[int, ...], shape: LaunchShape, packed: Packed) -> Launch:
    content, offsets = bytearray(), []
    for argument in (packed.bounds, *packed.arguments):
        content.extend(bytes(-len(content) % 16))
        offsets.append(len(content))
        content.extend(argument)
    content.extend(bytes(-len(content) % WORD_BYTES))
    return Launch(
        name=name,
        handles=handles,
        grid=shape.grid,
        block=shape.block,
        shared_bytes=shape.shared_bytes,
        blob=tuple(np.frombuffer(bytes(content), np.int64).tolist()),
        parameters=tuple(offsets),
        patches=tuple(
            Patch(word=(offsets[1 + argument] + byte) // WORD_BYTES, buffer=buffer)
            for argument, byte, buffer in packed.patches
        ),
    )
