"""Parts of kernels in CuTe DSL for Hopper GPUs. It is imported where CuTe DSL is installed.

In each block a warp loads tiles by TMA into rings of stages, and two groups of four warps multiply them.
"""

from collections.abc import Sequence
from typing import Any

import cutlass
import jax.numpy as jnp
from cutlass import cute, pipeline
from cutlass.cute.nvgpu import cpasync, warpgroup
from cutlass.cute.runtime import make_fake_compact_tensor, make_fake_stream
from cutlass.jax import jax_to_cutlass_dtype

LOADERS, WORKERS = 128, 256
"""Threads of a block. Of the loaders one warp works: the others give their registers away."""


def compiled(launch: Any, dtype: Any, shapes: Sequence[Any], *constants: Any, options: str = "") -> Any:
    """What launches a kernel on a stream and arrays of these shapes in C order, as a function of TVM-FFI."""
    of, stream = jax_to_cutlass_dtype(jnp.dtype(dtype)), make_fake_stream(use_tvm_ffi_env_stream=True)
    orders = [tuple(reversed(range(len(shape)))) for shape in shapes]
    arrays = [
        make_fake_compact_tensor(of, shape, stride_order=order, assumed_align=16)
        for shape, order in zip(shapes, orders, strict=True)
    ]
    return cute.compile(launch, stream, *arrays, *constants, options=f"--enable-tvm-ffi {options}")


def ring(stages: int, size: int, blocks: int = 1) -> Any:
    """Who loads tiles of so many bytes into a ring of stages, and who takes them, in a cluster of blocks."""
    return pipeline.PipelineTmaAsync.create(
        num_stages=stages,
        producer_group=pipeline.CooperativeGroup(pipeline.Agent.Thread),
        consumer_group=pipeline.CooperativeGroup(pipeline.Agent.Thread, blocks * WORKERS // 32),
        tx_count=size,
        cta_layout_vmnk=cute.make_layout((1, blocks, 1, 1)),
    ).make_participants()


@cute.jit
def split(copy, shared, matrix, tile, part=0, parts=1):  # type: ignore[no-untyped-def]
    """The tiles that a block copies by TMA, or a part of each: first in shared memory, then in the matrix."""
    tiles = cute.local_tile(matrix, tile, (None, None))
    pair = cute.group_modes(shared, 0, 2), cute.group_modes(tiles, 0, 2)
    return cpasync.tma_partition(copy, part, cute.make_layout(parts), *pair)


@cute.jit
def add_product(first, mma, total, left, right):  # type: ignore[no-untyped-def]
    """Begins to multiply two tiles. ``first`` takes the first step: it adds to the total, or takes its place."""
    warpgroup.fence()
    for step in cutlass.range_constexpr(cute.size(left, mode=[2])):
        cute.gemm(mma if step else first, total, left[None, None, step], right[None, None, step], total)
    warpgroup.commit_group()
