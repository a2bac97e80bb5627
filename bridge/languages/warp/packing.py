"""Packs the arguments of a Warp launch into memory, and finds the words in it that hold addresses of buffers.

Warp packs the arguments itself. It records a launch on arrays at made-up addresses, without running it. This module
then reads, from Warp's own ctypes objects, the memory that Warp would have passed to the machine code. The layout of
these objects differs between versions, so every address is checked to lie where it was found.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import warp as wp

from bridge.compat.warp import LIBRARY
from bridge.ffi.native.abi import WORD_BYTES
from bridge.languages.warp.dtypes import NAMES, numpy_dtype
from bridge.languages.warp.generated import Generated, failed, generating, loadable, refused, settle
from bridge.languages.warp.launches import WarpArgument, WarpLaunch
from bridge.languages.warp.parameters import STRUCT

_ADDRESS_STEP = 1 << 20  # made-up addresses are multiples of this, so no other word looks like one


@dataclass(frozen=True)
class PackedLaunch:
    """A recorded launch.

    Attributes:
        module_exec: Keeps the machine code loaded.
        hooks: Warp's facts about the machine code.
        block_dim: Threads of a block.
        entry: Address of the machine code: a C function, or a CUDA function handle.
        content: The memory that the machine code gets, as words, see :class:`Layout`.
        layout: What is where in it.
        patches: Word of the memory, buffer, and offset in it (0 if left out), of each address to fill in.
    """

    module_exec: Any
    hooks: Any
    block_dim: int
    entry: int
    content: tuple[int, ...]
    layout: Layout
    patches: tuple[tuple[int, ...], ...]


class Layout(NamedTuple):
    """The memory that machine code gets: the bounds, a C struct of the arguments, and for an adjoint a second one.

    Attributes:
        structs: Where each struct starts, in bytes.
        offsets: Where the bounds and each argument start, in bytes.
        sizes: Bytes of the bounds and of each argument.
    """

    structs: tuple[int, ...]
    offsets: tuple[int, ...]
    sizes: tuple[int, ...]


def pack(made: Generated, launch: WarpLaunch, platform: str, device: Any) -> PackedLaunch | None:
    """Compiles and loads a kernel for a device, and packs the arguments of a launch; None if it has no threads.

    Args:
        made: The kernel and its code.
        launch: The launch.
        platform: JAX's name of the platform.
        device: Warp's device.

    Raises:
        KernelCompileError: Warp cannot compile the kernel.
        AbiError: This module does not understand Warp's record.
    """
    if 0 in launch.dims:
        return None
    arguments = list(zip(launch.arguments, made.kernel.adj.args, strict=True))
    values = [_value(argument, declared.type, index, device) for index, (argument, declared) in enumerate(arguments)]
    adjoints = [
        _adjoint(argument, declared.type, len(arguments) + index, device)
        for index, (argument, declared) in enumerate(arguments)
    ]
    with generating():
        kernel = loadable(made)
        try:
            recorded = wp.launch(
                kernel,
                dim=launch.dims,
                inputs=values,
                adj_inputs=adjoints if launch.backward else [],
                device=device,
                adjoint=launch.backward,
                record_tape=False,
                record_cmd=True,
                block_dim=made.threads,
            )
        except Exception as error:
            raise refused(kernel, error) from error
        if recorded is None:
            raise failed(kernel, "its module failed to build before; see the messages of Warp")
        settle(kernel)
    try:
        return _read(kernel, launch, recorded)
    except (AttributeError, TypeError, ValueError, ctypes.ArgumentError) as error:
        raise LIBRARY.changed(f"a recorded launch has other contents ({error})") from error


def load(made: Generated, device: Any, backward: bool) -> tuple[Any, Any, int]:
    """Compiles and loads a kernel for a device.

    Returns:
        What keeps the machine code loaded, Warp's facts about it, and the address of the kernel or its adjoint.

    Raises:
        KernelCompileError: Warp cannot compile the kernel, or there is no adjoint.
    """
    with generating():
        kernel = loadable(made)
        try:
            loaded = kernel.module.load(device, made.threads)
        except Exception as error:
            raise refused(kernel, error) from error
        if not loaded:
            raise failed(kernel, "its module failed to build before; see the messages of Warp")
        hooks = loaded.get_kernel_hooks(kernel)
        settle(kernel)
    entry = ctypes.cast(hooks.backward if backward else hooks.forward, ctypes.c_void_p).value
    if not entry:
        raise failed(kernel, f"there is no code of the {'adjoint' if backward else 'kernel'}")
    return loaded, hooks, entry


def _address(index: int) -> int:
    return _ADDRESS_STEP * (index + 1)


def _value(argument: WarpArgument, annotation: Any, index: int, device: Any) -> Any:
    """The value to pass to ``warp.launch`` for an argument."""
    if argument.shape is not None:
        return wp.array(ptr=_address(index), dtype=annotation.dtype, shape=argument.shape, device=device)
    return value_of(argument.value, argument.dtype, argument.inner, annotation)


def _adjoint(argument: WarpArgument, annotation: Any, index: int, device: Any) -> Any:
    if argument.dtype == STRUCT:  # Warp takes no None for it. What the adjoint adds to this one is dropped.
        return annotation()
    return None if argument.adjoint is None else _value(argument, annotation, index, device)


def value_of(content: bytes, dtype: str, inner: tuple[int, ...], annotation: Any) -> Any:
    """The value of this type in memory: a number, vector, matrix or struct."""
    if dtype == STRUCT:
        return _struct(annotation, annotation.ctype.from_buffer_copy(content))
    if inner:
        return annotation.from_buffer_copy(content)
    return np.frombuffer(content, numpy_dtype(dtype)).item()


def _struct(annotation: Any, content: Any) -> Any:
    """A struct with the fields of a C struct."""
    struct = annotation()
    for name, variable in annotation.vars.items():
        value = getattr(content, name)
        if hasattr(variable.type, "vars"):
            value = _struct(variable.type, value)
        elif NAMES.get(variable.type) in ("float16", "bfloat16"):  # C has their bits
            value = float(np.frombuffer(np.uint16(value).tobytes(), numpy_dtype(NAMES[variable.type]))[0])
        setattr(struct, name, value)
    return struct


def _read(kernel: wp.Kernel, launch: WarpLaunch, recorded: Any) -> PackedLaunch:
    bounds, *arguments = recorded.params
    function = recorded.hooks.backward if launch.backward else recorded.hooks.forward
    entry = ctypes.cast(function, ctypes.c_void_p).value
    count = len(launch.arguments)
    if len(arguments) != count * (2 if launch.backward else 1) or entry is None:
        raise LIBRARY.changed(f"{kernel.key} has {count} parameters, but its launch {len(arguments)} arguments")
    content, layout = laid_out(bounds, arguments, count)
    patches = []
    for index, (argument, start) in enumerate(zip(arguments, layout.offsets[1:], strict=True)):
        about = launch.arguments[index % count]
        buffer = about.buffer if index < count else about.adjoint
        if about.shape is None or buffer is None:
            continue
        if np.prod(about.shape) and argument.data != _address(index):
            raise LIBRARY.changed(f"argument {index} of {kernel.key} does not hold the address of its array")
        patches.append((start + type(argument).data.offset, buffer))
        if index < count and about.adjoint is not None:
            # A store clears the adjoint of the element it overwrites only if the array has the address of its gradient.
            patches.append((start + type(argument).grad.offset, about.adjoint))
    return PackedLaunch(
        module_exec=recorded.module_exec,
        hooks=recorded.hooks,
        block_dim=int(recorded.block_dim),
        entry=int(entry),
        content=tuple(np.frombuffer(content + bytes(-len(content) % WORD_BYTES), np.int64).tolist()),
        layout=layout,
        patches=tuple((byte // WORD_BYTES, buffer) for byte, buffer in patches),
    )


def laid_out(bounds: Any, arguments: Sequence[Any], count: int) -> tuple[bytes, Layout]:
    """The memory that machine code gets, with a struct for each ``count`` arguments."""
    content, structs, offsets = bytes(bounds), [], [0]
    for start in range(0, len(arguments), count):
        fields = [(f"argument{index}", type(each)) for index, each in enumerate(arguments[start : start + count])]
        struct: Any = type("Arguments", (ctypes.Structure,), {"_fields_": fields})
        content += bytes(-len(content) % 16)
        structs.append(len(content))
        offsets += [len(content) + getattr(struct, name).offset for name, _ in fields]
        content += bytes(struct(*arguments[start : start + count]))
    return content, Layout(tuple(structs), tuple(offsets), tuple(len(bytes(each)) for each in (bounds, *arguments)))
