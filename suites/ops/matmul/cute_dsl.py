"""The kernel of matmul in CuTe DSL, for Hopper GPUs. It is imported where CuTe DSL is installed.

A cluster of two blocks computes two tiles of out, one above the other: each block loads half of a tile of B for both.
"""

import functools

import cutlass
import jax
from cutlass import cute, pipeline
from cutlass.cute.nvgpu import OperandMajorMode, cpasync, warp, warpgroup
from cutlass.memory import SmemAllocator
from cutlass.tensor_utils import LayoutEnum
from cutlass.utils import hopper_helpers

from bridge import tvm_ffi_kernel
from suites.kernels import hopper
from suites.ops.matmul.fitting import fitting
from suites.vendors.shipped import padded

ROWS, DEPTH = 128, 64
"""Of a tile of A. The rows of a tile of out, too; how many columns that has is chosen."""

CHOICES = tuple(
    {"ROWS": ROWS, "COLUMNS": columns, "stages": stages} for columns, stages in ((256, 4), (128, 6), (64, 8))
)

PART, BUFFERS = 32, 4
"""Columns of out that are stored at once, and how many such parts of a tile may wait for it in shared memory."""

PAIR, GROUP, PROGRAMS = 2, 8, 132
"""Blocks of a cluster; pairs of tiles, one above the other, that share columns of B; and blocks of the grid."""


def matmul_cute(inputs, outs, **chosen):
    """Calls the kernel. TMA reads rows of whole 16 bytes; shorter ones are copied, with zeros after them."""
    rows, columns = outs[0].shape
    chosen = dict(chosen or fitting(CHOICES, rows, columns))
    function = compiled(outs[0].dtype, chosen["COLUMNS"], chosen["stages"])
    multiply = tvm_ffi_kernel(
        function, lambda A, B: jax.ShapeDtypeStruct((A.shape[0], B.shape[1]), A.dtype), platform="cuda"
    )
    return lambda A, B: multiply(padded(A, 1, 8), padded(B, 8, 8))[:, :columns]


@functools.cache
def compiled(dtype, columns, stages, options=""):
    """The kernel for matrices of a dtype, as a function of TVM-FFI."""
    rows, (depth, width) = cute.sym_int(), (cute.sym_int(divisibility=8) for _ in range(2))
    shapes = (rows, depth), (depth, width), (rows, width)
    return hopper.compiled(launch, dtype, shapes, columns, stages, options=options)


@cute.jit
def launch(stream, A, B, out, COLUMNS: cutlass.Constexpr, STAGES: cutlass.Constexpr):
    dtype, tile = out.element_type, (ROWS, COLUMNS, DEPTH)
    mma = hopper_helpers.make_trivial_tiled_mma(
        dtype, dtype, OperandMajorMode.K, OperandMajorMode.MN, cutlass.Float32, (2, 1, 1), (64, COLUMNS)
    )
    layout_a = hopper_helpers.make_smem_layout_a(LayoutEnum.ROW_MAJOR, tile, dtype, STAGES)
    layout_b = hopper_helpers.make_smem_layout_b(LayoutEnum.COL_MAJOR, tile, dtype, STAGES)
    buffers = min(BUFFERS, COLUMNS // PART)
    layout_out = hopper_helpers.make_smem_layout_epi(dtype, LayoutEnum.ROW_MAJOR, (ROWS, PART), buffers)
    turned = cute.make_tensor(B.iterator, cute.select(B.layout, mode=[1, 0]))  # CuTe has the depth last in both factors
    copies = (
        (cpasync.CopyBulkTensorTileG2SOp(), A, layout_a, (ROWS, DEPTH), 1),
        (cpasync.CopyBulkTensorTileG2SMulticastOp(), turned, layout_b, (COLUMNS, DEPTH), PAIR),
        (cpasync.CopyBulkTensorTileS2GOp(), out, layout_out, (ROWS, PART), 1),
    )
    described = [
        cpasync.make_tiled_tma_atom(kind, matrix, cute.slice_(layout, (None, None, 0)), shape, num_multicast=blocks)
        for kind, matrix, layout, shape, blocks in copies
    ]
    down, across = cute.ceil_div(out.shape[0], PAIR * ROWS), cute.ceil_div(out.shape[1], COLUMNS)
    layouts = layout_a, layout_b, layout_out
    multiply(*described[0], *described[1], *described[2], mma, *layouts, down, across, dtype, COLUMNS, STAGES).launch(
        grid=(PAIR * cutlass.min(down * across, PROGRAMS // PAIR), 1, 1),
        block=(hopper.LOADERS + hopper.WORKERS, 1, 1),
        cluster=(PAIR, 1, 1),
        stream=stream,
    )


@cute.kernel
def multiply(
    load_a, A, load_b, B, store, out, mma, layout_a, layout_b, layout_out, down, across,
    dtype: cutlass.Constexpr, COLUMNS: cutlass.Constexpr, STAGES: cutlass.Constexpr,
):  # fmt: skip
    thread, warp_number = cute.arch.thread_idx()[0], cute.arch.make_warp_uniform(cute.arch.warp_idx())
    upper_or_lower = cute.arch.make_warp_uniform(cute.arch.block_idx_in_cluster())
    memory = SmemAllocator()
    stages_a, stages_b, parts = (
        memory.allocate_tensor(dtype, each.outer, 1024, each.inner) for each in (layout_a, layout_b, layout_out)
    )
    producer, consumer = hopper.ring(STAGES, (ROWS + COLUMNS) * DEPTH * dtype.width // 8, PAIR)
    to_a, from_a = hopper.split(load_a, stages_a, A, (ROWS, DEPTH))
    to_b, from_b = hopper.split(load_b, stages_b, B, (COLUMNS, DEPTH), upper_or_lower, PAIR)
    from_part, to_out = hopper.split(store, parts, out, (ROWS, PART))
    steps = cute.size(from_a, mode=[2])
    first, stride = cute.arch.block_idx()[0] // PAIR, cute.arch.grid_dim()[0] // PAIR

    if warp_number < hopper.LOADERS // 32:
        cute.arch.setmaxregister_decrease(40)
        if warp_number == 0:
            for tile in cutlass.range(first, down * across, stride):
                i, j = place(tile, down, across)
                for k in cutlass.range(steps):
                    stage = producer.acquire_and_advance()
                    n, full = stage.index, stage.barrier
                    cute.copy(load_a, from_a[None, PAIR * i + upper_or_lower, k], to_a[None, n], tma_bar_ptr=full)
                    both = cutlass.Int16(2**PAIR - 1)
                    cute.copy(load_b, from_b[None, j, k], to_b[None, n], tma_bar_ptr=full, mcast_mask=both)
            producer.tail()
    else:
        cute.arch.setmaxregister_increase(232)
        worker = thread - hopper.LOADERS
        own = mma.get_slice(cute.arch.make_warp_uniform(worker // 128) * 128)  # the first thread of its four warps
        left = mma.make_fragment_A(own.partition_A(stages_a))
        right = mma.make_fragment_B(own.partition_B(stages_b))
        total = cute.make_rmem_tensor(mma.partition_shape_C((ROWS, COLUMNS)), cutlass.Float32)
        rounded = cute.make_rmem_tensor(total.shape, dtype)
        atom = cute.make_copy_atom(warp.StMatrix8x8x16bOp(False, 4), dtype)
        copy = cute.make_tiled_copy_S(atom, cute.make_tiled_copy_C_atom(atom, mma))
        pieces, own_parts = copy.retile(rounded), copy.get_slice(worker).partition_D(parts)
        workers_meet = pipeline.NamedBarrier(barrier_id=1, num_threads=hopper.WORKERS)
        finished = consumer.clone()  # a product is finished while the next one runs
        buffers = cute.size(parts, mode=[2])
        mma.set(warpgroup.Field.ACCUMULATE, True)
        for tile in cutlass.range(first, down * across, stride):
            i, j = place(tile, down, across)
            total.fill(0.0)
            index = consumer.wait_and_advance().index
            hopper.add_product(mma, mma, total, left[None, None, None, index], right[None, None, None, index])
            for _ in cutlass.range(1, steps):
                index = consumer.wait_and_advance().index
                hopper.add_product(mma, mma, total, left[None, None, None, index], right[None, None, None, index])
                warpgroup.wait_group(1)
                finished.release()
                finished.advance()
            warpgroup.wait_group(0)
            finished.release()
            finished.advance()
            rounded.store(total.load().to(dtype))
            for part in cutlass.range_constexpr(COLUMNS // PART):
                if warp_number == hopper.LOADERS // 32:
                    cute.arch.cp_async_bulk_wait_group(buffers - 1, read=True)
                workers_meet.arrive_and_wait()
                for piece in cutlass.range_constexpr(PART // 16):
                    at = part * (PART // 16) + piece
                    cute.copy(copy, pieces[(None, at), 0, 0], own_parts[None, 0, piece, part % buffers])
                cute.arch.fence_proxy("async.shared", space="cta")
                workers_meet.arrive_and_wait()
                if warp_number == hopper.LOADERS // 32:
                    target = to_out[None, PAIR * i + upper_or_lower, j * (COLUMNS // PART) + part]
                    cute.copy(store, from_part[None, part % buffers], target)
                    cute.arch.cp_async_bulk_commit_group()
        if warp_number == hopper.LOADERS // 32:
            cute.arch.cp_async_bulk_wait_group(0, read=True)


@cute.jit
def place(tile, down, across):
    """The row of pairs and the column of a tile, by its number."""
    group = tile // (GROUP * across) * GROUP
    height = cutlass.min(down - group, GROUP)
    inside = tile % (GROUP * across)
    return group + inside % height, inside // height
