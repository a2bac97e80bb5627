"""Makes cubins of a kernel for an exported program, and loads them where the kernel is not defined."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import msgspec

from bridge.cuda.launch_shape import LaunchShape
from bridge.cuda.machine_code import load_cubin
from bridge.errors import BridgeError
from bridge.ffi.cuda import driver
from bridge.ffi.cuda.devices import load_everywhere, local_ordinals
from bridge.ffi.cuda.parameters import check_parameters
from bridge.ffi.kernel_call import available
from bridge.ffi.plans.device import DevicePlan, Launch
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


def plan_of(name: str, content: bytes) -> DevicePlan:
    """The plan that launches cubins of another process on the GPUs of this one.

    Raises:
        BridgeError: There is no cubin for one of the GPUs, or the driver says that it takes other parameters.
        LaunchError: The launch is over a limit of a GPU.
    """
    given = msgspec.msgpack.decode(content, type=_Cubins)
    if not given.cubins:
        return DevicePlan((), given.alignments)
    used: dict[int, Cubin] = {}

    def load(ordinal: int) -> int:
        here = driver.compute_capability(ordinal)
        fitting = [each for each in given.cubins if each // 10 == here // 10 and each <= here]
        if not fitting:
            has = ", ".join(f"sm_{each}" for each in given.cubins)
            raise BridgeError(
                f"this program holds code of {name} for {has}, but runs on sm_{here}. Export it on such a GPU, or in "
                f"bridge.export_for('sm_{here}')."
            )
        cubin = used[ordinal] = given.cubins[max(fitting)]
        launch = cubin.launch
        shape = LaunchShape(launch.grid, launch.block, launch.shared_bytes)
        return load_cubin(name, cubin.content, cubin.symbol, shape, launch.cooperative, ordinal)

    handles = load_everywhere(load)
    first, *others = used.values()
    if any(each.launch != first.launch for each in others):
        raise BridgeError(f"{name} is launched in different ways on these GPUs. Use GPUs of one kind.")
    launches = [replace(first.launch, handles=handles)]
    check_parameters(launches)
    return DevicePlan(launches, given.alignments)
