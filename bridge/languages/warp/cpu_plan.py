"""Makes the native plan of a Warp launch on the CPU: native code calls Warp's C function on the buffers of a call."""

from __future__ import annotations

import ctypes
import functools
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import msgspec
import warp as wp
from llvmlite import binding

from bridge.compat.warp import library, machine_code
from bridge.errors import BridgeError, PlatformError
from bridge.ffi.native.addresses import c_function
from bridge.ffi.native.object_code import taken_by
from bridge.ffi.plans.host import HostPlan
from bridge.kernel.arguments import Signature
from bridge.languages.warp.generated import Generated, PackedLaunch, load, pack
from bridge.languages.warp.operations import Operation, RecordedOperation, WarpLaunch, WarpObject, block_of, host_plan


def build_host(made: Generated, launch: WarpLaunch, signature: Signature) -> HostPlan:
    """Compiles a kernel for the CPU.

    Args:
        made: The kernel and its code.
        launch: The launch.
        signature: The types of the call.

    Raises:
        PlatformError: Warp has no CPU support.
        KernelCompileError: Warp cannot compile the kernel.
    """
    name = made.kernel.key
    packed = pack(made, one_lane(made, launch), cpu_device(name))
    operations = [] if packed is None else [_operation(name, packed)]
    return host_plan(operations, range(len(signature.arrays)), take_error(made.threads), works_on_tiles(made), packed)


def carried_host(made: Generated, launch: WarpLaunch, signature: Signature) -> tuple[str, bytes]:
    """The object code of a kernel for an exported program, and the kind of :class:`~bridge.kernel.carried.Carried`.

    Raises:
        BridgeError: The code needs Warp.
    """
    if made.threads > 1:
        raise BridgeError("it has blocks of several threads on the CPU, whose errors Warp keeps")
    packed = pack(made, one_lane(made, launch), "cpu")
    if packed is None:
        content, symbol, operation = b"", "", Operation(made.kernel.key, 0, (), ())
    else:
        content, symbol = machine_code(packed.module_exec, f"cpu_{'backward' if launch.backward else 'forward'}")
        if others := [each for each in taken_by(content) if not hasattr(ctypes.CDLL(None), each)]:
            raise BridgeError(f"it calls {others[0]}, a function of Warp")
        operation = _operation(made.kernel.key, packed)
    features = binding.get_host_cpu_features()
    code = WarpObject(
        content, symbol, binding.get_process_triple(), tuple(each for each, has in features.items() if has),
        operation.block, operation.patches, len(signature.arrays), works_on_tiles(made),
    )  # fmt: skip
    return "warp", msgspec.msgpack.encode(code)


def cpu_device(name: str) -> Any:
    """Warp's CPU device.

    Raises:
        PlatformError: Warp has no CPU support.
    """
    if not wp.is_cpu_available():
        raise PlatformError(f"{name} cannot run on the CPU: this Warp build does not include CPU support.")
    return wp.get_device("cpu")


def repeat_on_host(
    name: str, operations: Sequence[tuple[RecordedOperation, Generated | None]], buffers: Sequence[int],
    shared: bool, alive: Any,
) -> HostPlan:  # fmt: skip
    """The plan that repeats recorded operations on the CPU.

    Args:
        name: The function that was recorded.
        operations: The operations, each with the code of its kernel if it is a launch.
        buffers: The number that each buffer of the recording has in a call.
        shared: The operations use memory from outside.
        alive: What the operations refer to.
    """
    device = cpu_device(name)
    loaded = functools.cache(lambda code, backward: load(code, device, backward))
    codes = [loaded(code, op.launch.backward) if op.launch else None for op, code in operations]
    made = [replace(op, entry=code[2]) if code else op for (op, _), code in zip(operations, codes, strict=True)]
    kernels = [code for _, code in operations if code]
    take = take_error(max((code.threads for code in kernels), default=1))
    return host_plan(made, buffers, take, shared or any(map(works_on_tiles, kernels)), (codes, alive))


def _operation(name: str, packed: PackedLaunch) -> Operation:
    """The launch as an operation."""
    block, patches = block_of(packed.content, packed.layout, packed.patches)
    return Operation(name, packed.entry, tuple(block), tuple(patches))


def one_lane(made: Generated, launch: WarpLaunch) -> WarpLaunch:
    """The launch with one thread for each block, for a kernel on the CPU that works on tiles.

    A tiled launch has one more dimension: the threads of a block, which share the work on each tile. On the CPU a block
    is one thread, which does all of the work, unless ``warp.config.enable_cpu_blocks`` is set. A second one would
    repeat it.
    """
    dims = launch.dims
    tiled = made.threads == 1 and launch.block_dim is not None and dims[-1] == launch.block_dim and len(dims) > 1
    if not tiled or getattr(made.kernel.adj, "kernel_dim", None) == len(dims) or not works_on_tiles(made):
        return launch
    return msgspec.structs.replace(launch, dims=(*dims[:-1], 1))


def works_on_tiles(made: Generated) -> bool:
    """Whether the code works on tiles, which live in memory that all calls of the machine code share."""
    return re.search(r"\bwp::(tile|untile)\w*[(<]", made.code) is not None


def take_error(threads: int) -> int:
    """Address of Warp's C function that gives the error of a block of several threads on the CPU; 0 for one thread."""
    return c_function(library().wp_take_cpu_block_error) if threads > 1 else 0
