"""The kernel of attention in CuTe DSL, for Hopper GPUs. It is imported where CuTe DSL is installed.

A block has a tile of queries of a head, and each of its two groups of warps half of them. As in flash attention 3,
tensor cores multiply the next keys while the exponentials of these are taken. Tiles of keys go from the last one, the
only one with a mask, to the first.
"""

import functools
import math

import cutlass
import jax
from cutlass import cute
from cutlass.cute.nvgpu import OperandMajorMode, cpasync, warp, warpgroup
from cutlass.memory import SmemAllocator
from cutlass.tensor_utils import LayoutEnum
from cutlass.utils import hopper_helpers

from bridge import tvm_ffi_kernel
from suites.kernels import hopper
from suites.vendors.shipped import padded

TILE, STAGES = 128, 2
"""Queries of a tile, and keys; and tiles of keys, and of values, that there is room for."""


def attention_cute(inputs, outs):
    """Calls the kernel, for at most 128 features. If they are no power of two, zeros come after them."""
    length, heads, width = outs[0].shape
    if width > 128:
        raise ValueError(f"the kernel in CuTe DSL takes heads of at most 128 features, not {width}")
    wide = max(16, 1 << (width - 1).bit_length())
    function = compiled(outs[0].dtype, wide, math.log2(math.e) / math.sqrt(width))
    attend = tvm_ffi_kernel(function, lambda q, k, v: jax.ShapeDtypeStruct(q.shape, q.dtype), platform="cuda")
    return lambda *arrays: attend(*(padded(each, 1, 1, wide) for each in arrays))[:length, :heads, :width]


@functools.cache
def compiled(dtype, width, scale, options=""):
    """The kernel for arrays of a dtype and width, as a function of TVM-FFI."""
    length, heads, few = (cute.sym_int() for _ in range(3))
    shapes = [(length, count, width) for count in (heads, few, few, heads)]
    return hopper.compiled(launch, dtype, shapes, scale, options=options)


@cute.jit
def launch(stream, q, k, v, out, SCALE: cutlass.Constexpr):
    dtype, width = out.element_type, out.shape[2]
    multiply = functools.partial(hopper_helpers.make_trivial_tiled_mma, dtype, dtype, OperandMajorMode.K)
    begin, score = (
        multiply(OperandMajorMode.K, cutlass.Float32, (2, 1, 1), (64, TILE), warpgroup.OperandSource.SMEM)
        for _ in range(2)
    )
    weigh = multiply(OperandMajorMode.MN, cutlass.Float32, (2, 1, 1), (64, width), warpgroup.OperandSource.RMEM)
    scores, sums = (TILE, TILE, width), (TILE, width, TILE)  # the rows, columns and depth of both products
    layout_q = hopper_helpers.make_smem_layout_a(LayoutEnum.ROW_MAJOR, scores, dtype, 1)
    layout_k = hopper_helpers.make_smem_layout_b(LayoutEnum.ROW_MAJOR, scores, dtype, STAGES)
    layout_v = hopper_helpers.make_smem_layout_b(LayoutEnum.COL_MAJOR, sums, dtype, STAGES)
    load = cpasync.CopyBulkTensorTileG2SOp()
    copies = (
        (load, q, (0, 2, 1), layout_q, (TILE, width)),
        (load, k, (0, 2, 1), layout_k, (TILE, width)),
        (load, v, (2, 0, 1), layout_v, (width, TILE)),  # CuTe has the depth last in both factors
        (cpasync.CopyBulkTensorTileS2GOp(), out, (0, 2, 1), layout_q, (TILE, width)),
    )
    described = []
    for kind, array, order, layout, shape in copies:
        turned = cute.make_tensor(array.iterator, cute.select(array.layout, mode=order))
        described += cpasync.make_tiled_tma_atom(kind, turned, cute.slice_(layout, (None, None, 0)), shape)
    tiles, group = cute.ceil_div(out.shape[0], TILE), out.shape[1] // k.shape[1]
    attend(*described, begin, score, weigh, layout_q, layout_k, layout_v, group, dtype, width, SCALE).launch(
        grid=(out.shape[1], tiles, 1), block=(hopper.LOADERS + hopper.WORKERS, 1, 1), stream=stream
    )


@cute.kernel
def attend(
    load_q, q, load_k, k, load_v, v, store, out, begin, score, weigh, layout_q, layout_k, layout_v, group,
    dtype: cutlass.Constexpr, width: cutlass.Constexpr, SCALE: cutlass.Constexpr,
):  # fmt: skip
    thread, warp_number = cute.arch.thread_idx()[0], cute.arch.make_warp_uniform(cute.arch.warp_idx())
    head, tile = cute.arch.block_idx()[0], cute.arch.grid_dim()[1] - 1 - cute.arch.block_idx()[1]  # the longest first
    memory, size = SmemAllocator(), TILE * width * dtype.width // 8
    queries, keys, values = (
        memory.allocate_tensor(dtype, each.outer, 1024, each.inner) for each in (layout_q, layout_k, layout_v)
    )
    ask_q, take_q = hopper.ring(1, size)
    ask_k, take_k = hopper.ring(STAGES, size)
    ask_v, take_v = hopper.ring(STAGES, size)
    to_q, from_q = hopper.split(load_q, queries, q[None, None, head], (TILE, width))
    to_k, from_k = hopper.split(load_k, keys, k[None, None, head // group], (TILE, width))
    to_v, from_v = hopper.split(load_v, values, v[None, None, head // group], (width, TILE))
    from_out, to_out = hopper.split(store, queries, out[None, None, head], (TILE, width))

    if warp_number < hopper.LOADERS // 32:
        cute.arch.setmaxregister_decrease(24)
        if warp_number == 0:
            stage = ask_q.acquire_and_advance()
            cute.copy(load_q, from_q[None, tile, 0], to_q[None, stage.index], tma_bar_ptr=stage.barrier)
            for before in cutlass.range(tile + 1):
                stage = ask_k.acquire_and_advance()
                cute.copy(load_k, from_k[None, tile - before, 0], to_k[None, stage.index], tma_bar_ptr=stage.barrier)
                stage = ask_v.acquire_and_advance()
                cute.copy(load_v, from_v[None, 0, tile - before], to_v[None, stage.index], tma_bar_ptr=stage.barrier)
            ask_k.tail()
            ask_v.tail()
    else:
        cute.arch.setmaxregister_increase(240)
        worker = thread - hopper.LOADERS
        first = cute.arch.make_warp_uniform(worker // 128) * 128  # thread of its four warps
        own_score, own_weigh = score.get_slice(first), weigh.get_slice(first)
        left = score.make_fragment_A(own_score.partition_A(queries))[None, None, None, 0]
        right = score.make_fragment_B(own_score.partition_B(keys))
        weighed = weigh.make_fragment_B(own_weigh.partition_B(values))
        scores = cute.make_rmem_tensor(score.partition_shape_C((TILE, TILE)), cutlass.Float32)
        sums = cute.make_rmem_tensor(weigh.partition_shape_C((TILE, width)), cutlass.Float32)
        weights = cute.make_rmem_tensor(weigh.partition_shape_A((TILE, TILE)), dtype)
        as_scores = cute.make_tensor(weights.iterator, scores.layout)  # both have the same numbers in the same order
        largest, total, fade = (cute.make_rmem_tensor((2,), cutlass.Float32) for _ in range(3))
        largest.fill(-math.inf)
        total.fill(0.0)
        sums.fill(0.0)
        begin.set(warpgroup.Field.ACCUMULATE, False)
        score.set(warpgroup.Field.ACCUMULATE, True)
        weigh.set(warpgroup.Field.ACCUMULATE, True)
        read_k, read_v = take_k.clone(), take_v.clone()

        take_q.wait_and_advance()
        index = take_k.wait_and_advance().index
        hopper.add_product(begin, score, scores, left, right[None, None, None, index])
        warpgroup.wait_group(0)
        read_k.release()
        read_k.advance()
        places = score.get_slice(worker).partition_C(cute.make_identity_tensor((TILE, TILE)))
        for i in cutlass.range(cute.size(scores), unroll_full=True):
            if places[i][0] < places[i][1]:
                scores[i] = -math.inf
        take_weights(scores, largest, total, fade, SCALE)
        as_scores.store(scores.load().to(dtype))
        for _ in cutlass.range(tile):
            index = take_k.wait_and_advance().index
            hopper.add_product(begin, score, scores, left, right[None, None, None, index])
            index = take_v.wait_and_advance().index
            hopper.add_product(weigh, weigh, sums, weights, weighed[None, None, None, index])
            warpgroup.wait_group(1)
            read_k.release()
            read_k.advance()
            take_weights(scores, largest, total, fade, SCALE)
            warpgroup.wait_group(0)
            read_v.release()
            read_v.advance()
            scale_rows(sums, fade)
            as_scores.store(scores.load().to(dtype))
        index = take_v.wait_and_advance().index
        hopper.add_product(weigh, weigh, sums, weights, weighed[None, None, None, index])
        warpgroup.wait_group(0)
        read_v.release()

        for row in cutlass.range_constexpr(2):
            fade[row] = 1 / cute.arch.warp_reduction_sum(total[row], threads_in_group=4)
        scale_rows(sums, fade)
        rounded = cute.make_rmem_tensor(sums.shape, dtype)
        rounded.store(sums.load().to(dtype))
        atom = cute.make_copy_atom(warp.StMatrix8x8x16bOp(False, 4), dtype)
        copy = cute.make_tiled_copy_S(atom, cute.make_tiled_copy_C_atom(atom, weigh))
        pieces, parts = copy.retile(rounded), copy.get_slice(worker).partition_D(queries)  # all queries have been read
        for piece in cutlass.range_constexpr(width // 16):
            cute.copy(copy, pieces[(None, piece), 0, 0], parts[None, 0, piece, 0])
        cute.arch.fence_proxy("async.shared", space="cta")
        cute.arch.barrier(barrier_id=1, number_of_threads=hopper.WORKERS)
        if warp_number == hopper.LOADERS // 32:
            cute.copy(store, from_out[None, 0], to_out[None, tile, 0])
            cute.arch.cp_async_bulk_commit_group()
            cute.arch.cp_async_bulk_wait_group(0, read=True)


@cute.jit
def by_rows(numbers):
    """The numbers of a thread in a product: it has two rows, and in each of them pairs of columns."""
    pairs = cute.size(numbers) // 4
    return cute.make_tensor(numbers.iterator, cute.make_layout((2, (2, pairs)), stride=(2, (1, 4))))


@cute.jit
def take_weights(scores, largest, total, fade, SCALE: cutlass.Constexpr):
    """Scores become weights. If one is larger than all before, those fade. The total is of this thread's columns."""
    rows = by_rows(scores)
    for row in cutlass.range_constexpr(2):
        peak = rows[row, None].load().reduce(cute.ReductionOp.MAX, largest[row], 0)
        peak = cute.arch.warp_reduction_max(peak, threads_in_group=4)
        fade[row] = cute.math.exp2((largest[row] - peak) * SCALE, fastmath=True)
        weights = cute.math.exp2(rows[row, None].load() * SCALE - peak * SCALE, fastmath=True)
        total[row] = weights.reduce(cute.ReductionOp.ADD, total[row] * fade[row], 0)
        rows[row, None].store(weights)
        largest[row] = peak


@cute.jit
def scale_rows(numbers, factors):
    """Multiplies each row with its factor."""
    rows = by_rows(numbers)
    for row in cutlass.range_constexpr(2):
        rows[row, None].store(rows[row, None].load() * factors[row])
