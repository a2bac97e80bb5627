"""Writes CUDA plans with their machine code as text for exported programs, and reads them again."""

from __future__ import annotations

import base64
import contextlib
import contextvars
import ctypes
from collections.abc import Iterator, Mapping, Sequence

import msgspec

from bridge.errors import PlatformError
from bridge.ffi.cuda import driver
from bridge.ffi.cuda.ordinals import load_everywhere
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
        )
        for launch, of in zip(plan.launches, images, strict=True)
    )
    embedded = _EmbeddedPlan(plan.name, tuple(plan.inputs), tuple(plan.outputs), launches)
    return base64.b64encode(msgspec.msgpack.encode(embedded)).decode()


def read(text: str) -> DevicePlan:
    """The plan that :func:`write` wrote as text, its kernels loaded on each of JAX's local GPUs.

    Raises:
        PlatformError: The program was not exported for the architecture of a GPU.
    """
    plan = msgspec.msgpack.decode(base64.b64decode(text), type=_EmbeddedPlan)
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
        return handle

    return load_everywhere(load)
