"""Makes the native plan of a Warp launch on the CPU, which calls Warp's C function."""

from __future__ import annotations

import ctypes
import functools
import re
from collections.abc import Sequence
from typing import Any

import msgspec
import numba
import numpy as np
import warp as wp

from bridge.errors import LaunchError, PlatformError
from bridge.ffi.native.abi import ERROR, WORD_BYTES
from bridge.ffi.native.addresses import c_function
from bridge.ffi.native.handler import create_error, native
from bridge.ffi.native.words import call, call2, call3, copy_words, load, stack_words, store
from bridge.ffi.plans.host import HostPlan, Mutex
from bridge.languages.warp.generated import Generated
from bridge.languages.warp.launches import WarpLaunch
from bridge.languages.warp.packing import PackedLaunch, pack
from bridge.languages.warp.settings import internals
from bridge.signature.array_types import Signature


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
    if not wp.is_cpu_available():
        raise PlatformError(f"{name} cannot run on the CPU: this build of Warp has no CPU support.")
    packed = pack(made, one_lane(made, launch), "cpu", "cpu")
    context, alive = _context(packed, take_error(made.threads))
    function = _host_function()
    return HostPlan(
        name=name,
        function=function.address,
        inputs=signature.input_sizes,
        outputs=signature.output_sizes,
        mutex=tile_mutex() if works_on_tiles(made) else None,
        context=ctypes.addressof(context),
        alive=(context, alive, function, packed),
    )


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
    code = "\n".join(line for line in made.source.splitlines() if not line.lstrip().startswith("//"))
    return re.search(r"\bwp::(tile|untile)\w*[(<]", code) is not None


@functools.cache
def tile_mutex() -> Mutex:
    """Held while code that works on tiles runs."""
    return Mutex.new()


def take_error(threads: int) -> int:
    """Address of Warp's C function that gives the error of a block of several threads on the CPU; 0 for one thread."""
    return c_function(internals().runtime.core.wp_take_cpu_block_error) if threads > 1 else 0


@native
def error_of_blocks(frame, take):
    """Native code: asks the function that :func:`take_error` gives. Returns 0 or the address of XLA's error."""
    text = call(take, 0) if take != 0 else 0
    return create_error(frame, np.int64(ERROR.INTERNAL), text) if text != 0 else 0


# Words of the context of a host function. Patches follow: a word of the block, and the buffer whose address goes there.
_CONTEXT_WORDS = 7
(_ENTRY, _BLOCK, _BLOCK_WORDS, _ARGUMENTS, _ADJOINTS, _TAKE_ERROR, _PATCH_COUNT) = range(_CONTEXT_WORDS)
MAX_BLOCK_WORDS = 1 << 12


def _context(packed: PackedLaunch | None, take: int) -> tuple[ctypes.Array[ctypes.c_int64], Any]:
    """The context of the host function as words, and the memory that they refer to."""
    if packed is None:
        return _array([0] * _CONTEXT_WORDS), None
    block = _array(packed.content)
    if len(block) > MAX_BLOCK_WORDS:
        raise LaunchError(
            f"the arguments of a kernel take {ctypes.sizeof(block)} bytes, expected at most "
            f"{MAX_BLOCK_WORDS * WORD_BYTES}. Pass fewer arrays."
        )
    arguments, adjoints, *_ = (*packed.structs, 0, 0)
    header = [packed.entry, ctypes.addressof(block), len(block), arguments, adjoints, take, len(packed.patches)]
    return _array([*header, *(word for patch in packed.patches for word in patch)]), block


def _array(values: Sequence[int]) -> ctypes.Array[ctypes.c_int64]:
    return (ctypes.c_int64 * len(values))(*values)


@functools.cache
def _host_function() -> Any:
    """The C function of a :class:`~bridge.ffi.plans.host.HostPlan` that runs the Warp kernel of its context."""

    @numba.cfunc(numba.types.int64(*[numba.types.int64] * 5), error_model="numpy")
    def function(frame, buffers, data, batch_rank, context):
        entry = load(context, _ENTRY)
        if entry == 0:  # a launch of no threads
            return 0
        block = stack_words(MAX_BLOCK_WORDS)
        copy_words(block, load(context, _BLOCK), load(context, _BLOCK_WORDS))
        for patch in range(load(context, _PATCH_COUNT)):
            at = _CONTEXT_WORDS + 2 * patch
            store(block, load(context, at), load(data, load(context, at + 1)))
        adjoints = load(context, _ADJOINTS)
        if adjoints == 0:
            call2(entry, block, block + load(context, _ARGUMENTS))
        else:
            call3(entry, block, block + load(context, _ARGUMENTS), block + adjoints)
        return error_of_blocks(frame, load(context, _TAKE_ERROR))

    return function
