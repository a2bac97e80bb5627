"""Packs the arguments of a Warp launch into memory, and finds the words in it that hold addresses of buffers.

Warp packs the arguments itself. It records a launch on arrays at made-up addresses, without running it. This module
then reads, from Warp's own ctypes objects, the memory that Warp would have passed to the machine code. The layout of
these objects differs between versions, so every address is checked to lie where it was found.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import Any

import numpy as np
import warp as wp

from bridge.languages.warp.dtypes import numpy_dtype
from bridge.languages.warp.generated import Generated, generating, loadable, settle
from bridge.languages.warp.instances import withdraw
from bridge.languages.warp.launch_spec import Argument, Spec
from bridge.languages.warp.refusals import failed, refused
from bridge.languages.warp.supported import unknown_launches

_ADDRESS_STEP = 1 << 20  # made-up addresses are multiples of this, so no other word looks like one


@dataclass(frozen=True)
class Packed:
    """A recorded launch.

    Attributes:
        module_exec: Keeps the machine code loaded.
        hooks: Warp's facts about the machine code.
        block_dim: Threads of a block.
        entry: Address of the machine code: a C function, or a CUDA function handle.
        bounds: The launch bounds in memory.
        arguments: The memory of each argument: first of the forward launch, then of the adjoint.
        types: Their ctypes types.
        patches: Argument, byte within it, and buffer, of each address to fill in.
        backward: Whether it launches the adjoint.
    """

    module_exec: Any
    hooks: Any
    block_dim: int
    entry: int
    bounds: bytes
    arguments: tuple[bytes, ...]
    types: tuple[Any, ...]
    patches: tuple[tuple[int, int, int], ...]
    backward: bool


def pack(made: Generated, spec: Spec, device: Any) -> Packed | None:
    """Compiles and loads a kernel for a device, and packs the arguments of a launch; None if it has no threads.

    Args:
        made: The kernel and its code.
        spec: The launch.
        device: Warp's device.

    Raises:
        KernelCompileError: Warp cannot compile the kernel.
        AbiError: This module does not understand Warp's record.
    """
    if 0 in spec.dims:
        return None
    kernel = made.kernel
    arguments = list(zip(spec.arguments, kernel.adj.args, strict=True))
    values = [_value(argument, declared.type, index, device) for index, (argument, declared) in enumerate(arguments)]
    adjoints: list[Any] = []
    if spec.backward:
        adjoints = [
            None if argument.adjoint is None else _value(argument, declared.type, len(arguments) + index, device)
            for index, (argument, declared) in enumerate(arguments)
        ]
    block_dim: dict[str, Any] = {} if spec.block_dim is None else {"block_dim": spec.block_dim}
    with generating():
        kernel = loadable(made)
        try:
            launch = wp.launch(
                kernel,
                dim=spec.dims,
                inputs=values,
                adj_inputs=adjoints,
                device=device,
                adjoint=spec.backward,
                record_tape=False,
                record_cmd=True,
                **block_dim,
            )
        except Exception as error:
            withdraw(kernel)
            raise refused(kernel, error) from error
        if launch is None:
            raise failed(kernel, "its module failed to build before; see the messages of Warp")
        settle(made, kernel, "cpu" if launch.device.is_cpu else "cuda", spec.block_dim)
    return _read(kernel, spec, launch)


def _address(index: int) -> int:
    return _ADDRESS_STEP * (index + 1)


def _value(argument: Argument, annotation: Any, index: int, device: Any) -> Any:
    """The value to pass to ``warp.launch`` for an argument."""
    if argument.shape is not None:
        return wp.array(ptr=_address(index), dtype=annotation.dtype, shape=argument.shape, device=device)
    if argument.inner:
        return annotation.from_buffer_copy(argument.value)
    return np.frombuffer(argument.value, numpy_dtype(argument.dtype)).item()


def _read(kernel: wp.Kernel, spec: Spec, launch: Any) -> Packed:
    try:
        bounds, *arguments = launch.params
        function = launch.hooks.backward if spec.backward else launch.hooks.forward
        entry = ctypes.cast(function, ctypes.c_void_p).value
    except (AttributeError, TypeError, ValueError, ctypes.ArgumentError) as error:
        raise unknown_launches(f"a recorded launch has other contents ({error})") from error
    count = len(spec.arguments)
    if len(arguments) != count * (2 if spec.backward else 1) or entry is None:
        raise unknown_launches(f"{kernel.key} has {count} parameters, but its launch {len(arguments)} arguments")
    patches = []
    for index, argument in enumerate(arguments):
        about = spec.arguments[index % count]
        is_adjoint = index >= count
        if about.shape is None or (is_adjoint and about.adjoint is None):
            continue
        expected = _address(index) if np.prod(about.shape) else None
        if expected is not None and argument.data != expected:
            raise unknown_launches(f"argument {index} of {kernel.key} does not hold the address of its array")
        buffer = about.adjoint if is_adjoint else about.buffer
        assert buffer is not None
        patches.append((index, type(argument).data.offset, buffer))
        if not is_adjoint and about.adjoint is not None:
            # A store clears the adjoint of the element it overwrites only if the array has the address of its gradient.
            patches.append((index, type(argument).grad.offset, about.adjoint))
    return Packed(
        module_exec=launch.module_exec,
        hooks=launch.hooks,
        block_dim=int(launch.block_dim),
        entry=int(entry),
        bounds=bytes(bounds),
        arguments=tuple(map(bytes, arguments)),
        types=tuple(map(type, arguments)),
        patches=tuple(patches),
        backward=spec.backward,
    )
