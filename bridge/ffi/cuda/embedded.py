"""Writes CUDA plans with their machine code as text for exported programs, and reads them again.

Such a text is code. Reading it checks that the numbers in it fit together, so a damaged text is an error and not a
crash. But nothing can check what the machine code does: whoever writes the text decides what runs on the GPU. Run only
programs that you trust, as for any other binary.
"""

from __future__ import annotations

import base64
import contextlib
import contextvars
import ctypes
import math
from collections.abc import Iterator, Mapping, Sequence

import msgspec

from bridge.errors import BridgeError, PlatformError, SignatureError
from bridge.ffi.cuda import cubin, driver
from bridge.ffi.cuda.limits import Limits, check_cooperative
from bridge.ffi.cuda.ordinals import load_everywhere
from bridge.ffi.native.abi import WORD_BYTES
from bridge.ffi.native.call_frame import check_count
from bridge.ffi.plans.device import DevicePlan, Launch, Patch


class Image(msgspec.Struct, frozen=True):
    """The machine code of a kernel for one architecture.

    Attributes:
        capability: The compute capability it is for, such as 90.
        symbol: The kernel's name in it.
        content: A cubin.
    """

    capability: int
    symbol: str
    content: bytes


class _EmbeddedLaunch(msgspec.Struct, frozen=True):
    """A :class:`~bridge.ffi.plans.device.Launch` with images instead of handles."""

    name: str
    images: tuple[Image, ...]
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    shared_bytes: int
    blob: tuple[int, ...]
    parameters: tuple[int, ...]
    patches: tuple[tuple[int, int, int], ...]
    cooperative: bool = False
    overlaps: bool = False


class _EmbeddedPlan(msgspec.Struct, frozen=True):
    """A :class:`~bridge.ffi.plans.device.DevicePlan`."""

    name: str
    inputs: tuple[tuple[int, int], ...]
    outputs: tuple[tuple[int, int], ...]
    launches: tuple[_EmbeddedLaunch, ...]


_wanted: contextvars.ContextVar[bool] = contextvars.ContextVar("carrying", default=False)


@contextlib.contextmanager
def carrying() -> Iterator[None]:
    """Makes programs that are lowered for export in this block carry the machine code of their CUDA kernels."""
    token = _wanted.set(True)
    try:
        yield
    finally:
        _wanted.reset(token)


def is_wanted() -> bool:
    """Whether a program that is exported now has to carry its machine code."""
    return _wanted.get()


def write(plan: DevicePlan, images: Sequence[Mapping[int, Image]]) -> str:
    """A plan as text.

    Args:
        plan: The plan.
        images: For each of its launches, the machine code by compute capability.
    """
    launches = tuple(
        _EmbeddedLaunch(
            name=launch.name,
            images=tuple(of.values()),
            grid=launch.grid,
            block=launch.block,
            shared_bytes=launch.shared_bytes,
            blob=tuple(ctypes.c_int64(word).value for word in launch.blob),
            parameters=launch.parameters,
            patches=tuple((patch.word, patch.buffer, patch.offset) for patch in launch.patches),
            cooperative=launch.cooperative,
            overlaps=launch.overlaps,
        )
        for launch, of in zip(plan.launches, images, strict=True)
    )
    embedded = _EmbeddedPlan(plan.name, tuple(plan.inputs), tuple(plan.outputs), launches)
    return base64.b64encode(msgspec.msgpack.encode(embedded)).decode()


def read(text: str) -> DevicePlan:
    """The plan that :func:`write` wrote as text, its kernels loaded on each of JAX's local GPUs.

    Raises:
        BridgeError: The text is damaged: it is no plan, or a number in it is out of its range.
        LaunchError: Blocks that wait for each other cannot all run at once on a GPU.
        PlatformError: The program was not exported for the architecture of a GPU.
    """
    try:
        plan = msgspec.msgpack.decode(base64.b64decode(text, validate=True), type=_EmbeddedPlan)
    except (ValueError, msgspec.MsgspecError) as error:
        raise BridgeError(
            f"this program carries CUDA code that cannot be read ({error}). Export it again, and copy it whole."
        ) from error
    _check_plan(plan)
    launches = [
        Launch(
            name=launch.name,
            handles=_handles(launch),
            grid=launch.grid,
            block=launch.block,
            shared_bytes=launch.shared_bytes,
            blob=launch.blob,
            parameters=launch.parameters,
            patches=tuple(Patch(*patch) for patch in launch.patches),
            cooperative=launch.cooperative,
            overlaps=launch.overlaps,
        )
        for launch in plan.launches
    ]
    return DevicePlan(plan.name, plan.inputs, plan.outputs, launches)


def _handles(launch: _EmbeddedLaunch) -> tuple[int, ...]:
    images = {image.capability: image for image in launch.images}

    def load(ordinal: int) -> int:
        capability = driver.compute_capability(ordinal)
        if capability not in images:
            carried = ", ".join(f"sm_{each}" for each in sorted(images))
            raise PlatformError(
                f"this program carries the kernel {launch.name!r} for {carried}, but device {ordinal} is "
                f"sm_{capability}. Export it on a machine with such a GPU, or with jax.export."
            )
        with driver.current(ordinal):
            handle = driver.load_function(driver.load_kernel(images[capability].content, images[capability].symbol))
            driver.allow_shared_bytes(handle, launch.shared_bytes)
            if launch.cooperative:
                most = driver.most_cooperative_blocks(handle, ordinal, math.prod(launch.block), launch.shared_bytes)
                check_cooperative(launch.name, launch.grid, most)
        return handle

    return load_everywhere(load)


_LEAST_WORD, _MOST_WORD = -(2**63), 2**63 - 1
_MOST_RANK = 64
_MOST_ITEM_BYTES = 4096


def _check_plan(plan: _EmbeddedPlan) -> None:
    """Raises BridgeError if a number of a plan is out of its range: native code and the driver trust them all."""
    buffers = (*plan.inputs, *plan.outputs)
    try:
        check_count(plan.name, len(buffers))
    except SignatureError as error:
        raise _damaged(plan.name, str(error)) from error
    if not plan.outputs:
        raise _damaged(plan.name, "it has no outputs, expected at least one")
    for rank, item_bytes in buffers:
        _check_range(plan.name, "the rank of an array", rank, 0, _MOST_RANK)
        _check_range(plan.name, "the bytes of an array's item", item_bytes, 1, _MOST_ITEM_BYTES)
    for launch in plan.launches:
        _check_launch(launch, len(buffers))


def _check_launch(launch: _EmbeddedLaunch, buffer_count: int) -> None:
    name, most = launch.name, Limits()
    for axis, blocks, threads in zip(range(3), launch.grid, launch.block, strict=True):
        _check_range(name, f"dimension {axis} of the grid", blocks, 1, most.grid[axis])
        _check_range(name, f"dimension {axis} of the block", threads, 1, most.block[axis])
    _check_range(name, "the number of threads of a block", math.prod(launch.block), 1, most.block_threads)
    _check_range(name, "the shared memory", launch.shared_bytes, 0, 2**31 - 1)
    blob_bytes = WORD_BYTES * len(launch.blob)
    for word in launch.blob:
        _check_range(name, "a word of the parameters", word, _LEAST_WORD, _MOST_WORD)
    for offset in launch.parameters:
        _check_range(name, "the offset of a parameter", offset, 0, blob_bytes - 1)
    for word, buffer, offset in launch.patches:
        _check_range(name, "the word that takes an address", word, 0, len(launch.blob) - 1)
        _check_range(name, "the array whose address it takes", buffer, 0, buffer_count - 1)
        _check_range(name, "the offset in that array", offset, 0, _MOST_WORD)
    if not launch.images:
        raise _damaged(name, "it has no machine code")
    for image in launch.images:
        sizes = cubin.parameter_sizes(image.content, image.symbol)
        if sizes is None:
            raise _damaged(name, f"the machine code for sm_{image.capability} has no kernel {image.symbol!r}")
        if len(sizes) != len(launch.parameters) or any(
            offset + size > blob_bytes for offset, size in zip(launch.parameters, sizes, strict=True)
        ):
            raise _damaged(name, f"its {len(launch.parameters)} parameters do not fit those of the kernel, {sizes}")


def _check_range(name: str, what: str, number: int, least: int, most: int) -> None:
    if not least <= number <= most:
        raise _damaged(name, f"{what} is {number}, expected from {least} to {most}")


def _damaged(name: str, what: str) -> BridgeError:
    return BridgeError(f"this program carries damaged CUDA code of {name!r}: {what}. Export it again.")
