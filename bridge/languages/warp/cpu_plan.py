"""Makes the native plan of a Warp launch on the CPU, which calls Warp's C function."""

from __future__ import annotations

import ctypes
import functools
from typing import Any

import msgspec
import numba
import numpy as np
import warp as wp

from bridge.errors import AbiError, LaunchError, PlatformError
from bridge.ffi.built import Built
from bridge.ffi.native.abi import ERROR, WORD_BYTES
from bridge.ffi.native.addresses import c_function
from bridge.ffi.native.handler import create_error
from bridge.ffi.native.words import call, call2, call3, copy_words, load, stack_words, store
from bridge.ffi.plans.host import HostPlan, Mutex
from bridge.languages.warp.generated import Generated
from bridge.languages.warp.inputs import check_inputs
from bridge.languages.warp.launch_spec import Spec
from bridge.languages.warp.packing import Packed, pack
from bridge.languages.warp.settings import cooperates
from bridge.languages.warp.uses import uses_tiles
from bridge.signature.array_types import Signature


def build_host(made: Generated, spec: Spec, signature: Signature) -> Built:
    """Compiles a kernel for the CPU.

    Args:
        made: The kernel and its code.
        spec: The launch.
        signature: The types of the call.

    Raises:
        PlatformError: Warp has no CPU support.
        KernelCompileError: Warp cannot compile the kernel.
    """
    kernel = made.kernel
    if not wp.is_cpu_available():
        raise PlatformError(f"{kernel.key} cannot run on the CPU: this build of Warp has no CPU support.")
    check_inputs(made, spec, signature)
    packed = pack(made, one_lane(made, spec), "cpu")
    context, alive = _context(packed)
    function = _host_function()
    plan = HostPlan(
        name=kernel.key,
        function=function.address,
        inputs=signature.input_sizes,
        outputs=signature.output_sizes,
        mutex=_tile_mutex() if packed is not None and _shares_memory(packed) else None,
        context=ctypes.addressof(context),
    )
    return Built(plan, (context, alive, function, packed))


def one_lane(made: Generated, spec: Spec) -> Spec:
    """The launch with one thread for each block, for a kernel on the CPU that works on tiles.

    A tiled launch has one more dimension: the threads of a block, which share the work on each tile. On the CPU a block
    is one thread, unless Warp is configured otherwise. That thread does all of the work. A second one would repeat it.
    """
    tiled = spec.block_dim is not None and spec.dims[-1] == spec.block_dim and len(spec.dims) > 1
    rank = getattr(made.kernel.adj, "kernel_dim", None)
    if not tiled or rank == len(spec.dims) or cooperates() or not uses_tiles(made.source):
        return spec
    return msgspec.structs.replace(spec, dims=(*spec.dims[:-1], 1))


def _shares_memory(packed: Packed) -> bool:
    """Whether the machine code has memory that is shared between its calls: Warp's tiles live in such memory."""
    needs = getattr(packed.module_exec, "meta", None)
    return needs is None or any(size for size in needs.values()) or cooperates()


@functools.cache
def _tile_mutex() -> Mutex:
    return Mutex.new()


# Words of the context of a host function. Patches follow: a word of the block, and the buffer whose address goes there.
_CONTEXT_WORDS = 7
(_ENTRY, _BLOCK, _BLOCK_WORDS, _ARGUMENTS, _ADJOINTS, _TAKE_ERROR, _PATCH_COUNT) = range(_CONTEXT_WORDS)
_MAX_BLOCK_WORDS = 1 << 12


def _context(packed: Packed | None) -> tuple[ctypes.Array[ctypes.c_int64], Any]:
    """The context of the host function as words, and the memory that they refer to."""
    header = [0] * _CONTEXT_WORDS
    if packed is None:
        return _words(header), None
    # Warp's entry takes the addresses of the bounds and of a C struct of the arguments. The entry of an adjoint also
    # takes the address of a second struct, of the adjoints of the arguments.
    count = len(packed.arguments)
    forward = count // 2 if packed.backward else count
    structs = [_struct(packed.types[:forward])]
    if packed.backward:
        structs.append(_struct(packed.types[forward:]))
    content = bytearray(packed.bounds)
    starts, offsets = [], []
    for struct in structs:
        content.extend(bytes(-len(content) % 16))
        starts.append(len(content))
        for name, *_ in struct._fields_:
            offsets.append(starts[-1] + getattr(struct, name).offset)
        content.extend(bytes(ctypes.sizeof(struct)))
    for offset, memory in zip(offsets, packed.arguments, strict=True):
        content[offset : offset + len(memory)] = memory
    content.extend(bytes(-len(content) % WORD_BYTES))
    if len(content) > _MAX_BLOCK_WORDS * WORD_BYTES:
        raise LaunchError(
            f"the arguments of a kernel take {len(content)} bytes, expected at most {_MAX_BLOCK_WORDS * WORD_BYTES}. "
            "Pass fewer arrays."
        )
    block = _words(np.frombuffer(bytes(content), np.int64).tolist())
    header[_ENTRY], header[_BLOCK], header[_BLOCK_WORDS] = packed.entry, ctypes.addressof(block), len(block)
    header[_ARGUMENTS] = starts[0]
    header[_ADJOINTS] = starts[1] if packed.backward else 0
    header[_TAKE_ERROR] = _take_error() if cooperates() else 0
    header[_PATCH_COUNT] = len(packed.patches)
    for argument, byte, buffer in packed.patches:
        header += [(offsets[argument] + byte) // WORD_BYTES, buffer]
    return _words(header), block


def _struct(types: tuple[Any, ...]) -> Any:
    fields = [(f"argument{index}", kind) for index, kind in enumerate(types)]
    return type("Arguments", (ctypes.Structure,), {"_fields_": fields})


def _words(values: list[int]) -> ctypes.Array[ctypes.c_int64]:
    return (ctypes.c_int64 * max(1, len(values)))(*values)


def _take_error() -> int:
    """Address of the C function that returns and clears the message of a block that could not run, or null."""
    try:
        return c_function(wp._src.context.runtime.core.wp_take_cpu_block_error)  # type: ignore[attr-defined]
    except AttributeError as error:
        raise AbiError(
            f"Warp {wp.__version__} does not say where errors of CPU blocks are. Set warp.config.enable_cpu_blocks to "
            "False, or use Warp's own warp.jax_kernel."
        ) from error


@functools.cache
def _host_function() -> Any:
    """The C function of a :class:`~bridge.ffi.plans.host.HostPlan` that runs the Warp kernel of its context."""

    @numba.cfunc(numba.types.int64(*[numba.types.int64] * 5), error_model="numpy")
    def function(frame, buffers, data, batch_rank, context):
        entry = load(context, _ENTRY)
        if entry == 0:  # a launch of no threads
            return 0
        block = stack_words(_MAX_BLOCK_WORDS)
        copy_words(block, load(context, _BLOCK), load(context, _BLOCK_WORDS))
        for patch in range(load(context, _PATCH_COUNT)):
            at = _CONTEXT_WORDS + 2 * patch
            store(block, load(context, at), load(data, load(context, at + 1)))
        adjoints = load(context, _ADJOINTS)
        if adjoints == 0:
            call2(entry, block, block + load(context, _ARGUMENTS))
        else:
            call3(entry, block, block + load(context, _ARGUMENTS), block + adjoints)
        take_error = load(context, _TAKE_ERROR)
        if take_error != 0:
            message = call(take_error, 0)
            if message != 0:
                return create_error(frame, np.int64(ERROR.INTERNAL), message)
        return 0

    return function
