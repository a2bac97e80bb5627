"""Loads the cubins that a language makes of a kernel, and those that an exported program carries."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import msgspec

from bridge.cuda.launch_shape import LaunchShape
from bridge.cuda.machine_code import check_launch
from bridge.errors import BridgeError, LaunchError
from bridge.ffi.cuda import driver
from bridge.ffi.cuda.devices import load_everywhere, local_ordinals
from bridge.ffi.cuda.parameters import check_parameters
from bridge.ffi.kernel_call import available
from bridge.ffi.native.abi import WORD_BYTES
from bridge.ffi.plans.device import DevicePlan, Launch, Patch
from bridge.kernel.carried import capabilities


class Cubin(msgspec.Struct, frozen=True):
    """A kernel for one kind of GPU.

    Attributes:
        content: The cubin.
        symbol: The kernel's name in it.
        launch: Its launch, without handles.
    """

    content: bytes
    symbol: str
    launch: Launch


class _Cubins(msgspec.Struct, frozen=True):
    """The cubins by compute capability, empty if nothing is launched, and the alignment of each buffer."""

    cubins: dict[int, Cubin]
    alignments: tuple[int, ...]


def cubins_of(make: Callable[[int], Cubin], is_empty: bool, alignments: Sequence[int]) -> tuple[str, bytes]:
    """A kernel for the GPUs that an exported program is for, and the kind of :class:`~bridge.kernel.carried.Carried`.

    Args:
        make: The kernel for a compute capability.
        is_empty: Whether no thread runs.
        alignments: As for :class:`~bridge.ffi.plans.device.DevicePlan`.

    Raises:
        BridgeError: The program is for no GPU.
    """
    chips = capabilities([driver.compute_capability(each) for each in local_ordinals()] if available("cuda") else [])
    if not chips:
        raise BridgeError("it was exported without a GPU. Name the GPUs: with bridge.export_for('sm_90'): ...")
    made = {} if is_empty else {each: make(each) for each in chips}
    return "cubins", msgspec.msgpack.encode(_Cubins(made, tuple(alignments)))


def load_cubin(cubin: Cubin, ordinal: int) -> int:
    """The handle of a kernel on a device.

    Raises:
        LaunchError: The launch is over a limit of the device.
    """
    launch = cubin.launch
    shape = LaunchShape(launch.grid, launch.block, launch.shared_bytes)
    with driver.current(ordinal):
        handle = driver.load_function(driver.load_kernel(cubin.content, cubin.symbol))
        check_launch(launch.name, handle, shape, launch.cooperative, ordinal)
    return handle


def plan_of(name: str, content: bytes) -> DevicePlan:
    """The plan that launches cubins of another process on the GPUs of this one.

    Raises:
        BridgeError: There is no cubin for one of the GPUs, or the driver says that it takes other parameters.
        LaunchError: The launch is over a limit of a GPU.
    """
    given = msgspec.msgpack.decode(content, type=_Cubins)

    def fitting(here: int) -> Cubin:
        known = [each for each in given.cubins if each // 10 == here // 10 and each <= here]
        if not known:
            has = ", ".join(f"sm_{each}" for each in given.cubins)
            raise BridgeError(
                f"this program holds code of {name} for {has}, but runs on sm_{here}. Export it on such a GPU, or in "
                f"bridge.export_for('sm_{here}')."
            )
        return given.cubins[max(known)]

    plan = loaded(fitting, not given.cubins, given.alignments)
    check_parameters(plan.launches)
    return plan


def loaded(
    cubin_for: Callable[[int], Cubin],
    is_empty: bool,
    alignments: Sequence[int],
    alive: Any = None,
    load: Callable[[Cubin, int], int] = load_cubin,
) -> DevicePlan:
    """The plan that launches a kernel, which is loaded now on each of JAX's GPUs.

    Args:
        cubin_for: The kernel for a compute capability, such as 90.
        is_empty: Whether no thread runs, so that nothing is loaded.
        alignments: As for :class:`~bridge.ffi.plans.device.DevicePlan`.
        alive: The same.
        load: The handle of a cubin on the device with an ordinal.

    Raises:
        LaunchError: The launch is over a limit of a GPU, or is not the same on all of them.
    """
    if is_empty:
        return DevicePlan((), alignments, alive)
    used: dict[int, Cubin] = {}

    def load_on(ordinal: int) -> int:
        capability = driver.compute_capability(ordinal)
        if capability not in used:
            used[capability] = cubin_for(capability)
        return load(used[capability], ordinal)

    handles = load_everywhere(load_on)
    first, *others = used.values()
    if any(each.launch != first.launch for each in others):
        chips = ", ".join(f"sm_{each}" for each in used)
        raise LaunchError(
            f"{first.launch.name} is launched in different ways on {chips}. Let CUDA_VISIBLE_DEVICES name GPUs of one "
            "kind."
        )
    return DevicePlan([replace(first.launch, handles=handles)], alignments, alive)


def launch_of_words(
    name: str, shape: LaunchShape, words: Sequence[int], patches: Sequence[Patch], **options: Any
) -> Launch:
    """A launch, without handles, whose parameters have a word each; ``options`` are further fields of it."""
    parameters = tuple(range(0, WORD_BYTES * len(words), WORD_BYTES))
    return Launch(
        name, (), shape.grid, shape.block, shape.shared_bytes, tuple(words), parameters, tuple(patches), **options
    )
