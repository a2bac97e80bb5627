"""Kernels of softmax in Warp."""

import functools

from suites.kernels.warp.blocks import blocks, scalar, wp
from suites.kernels.warp.rows import PART, rows_of, threads_for
from suites.kernels.warp.vectors import FOUR, block_of, on_gpu, thread_of_block, vectors_of


@functools.cache
def softmax_warp(dtype, rows_of=rows_of):
    """A block for each row. On a GPU its threads keep the row in registers, if it has whole vectors and fits."""
    element = scalar(dtype)
    matrix, vector = wp.array2d(dtype=element), wp.array(dtype=element)
    four, load, store, aligned, *_ = vectors_of(dtype)
    rows = rows_of(dtype)
    load_part, store_part, powers_of, total_of = rows.load_or_least, rows.store, rows.powers, rows.total
    largest_of, largest_of_block, total_of_block = rows.largest, rows.largest_of_block, rows.total_of_block

    @wp.func
    def larger_of(a: element, b: element):
        return wp.where(a > b, a, b)

    @wp.func
    def largest(x: vector, in_vectors: bool, lane: int):
        maximum = element(-wp.inf)
        if in_vectors:
            for j in range(lane * FOUR, x.shape[0], wp.block_dim() * FOUR):
                v = load(x, j)
                maximum = larger_of(larger_of(larger_of(v[0], v[1]), larger_of(v[2], v[3])), maximum)
        else:
            for j in range(lane, x.shape[0], wp.block_dim()):
                maximum = larger_of(x[j], maximum)
        return maximum

    @wp.func_grad(largest)
    def adj_largest(x: vector, in_vectors: bool, lane: int, adj_found: element):
        """Does nothing: the result does not depend on the number that is subtracted from all elements of a row."""

    @wp.func
    def exp_of(v: four, center: element):
        return four(wp.exp(v[0] - center), wp.exp(v[1] - center), wp.exp(v[2] - center), wp.exp(v[3] - center))

    # The loops are in separate functions: the adjoint of a kernel does not know the result of a loop in it.
    @wp.func
    def sum_of_exp(x: vector, lane: int, center: element):
        total = element(0)
        for j in range(lane, x.shape[0], wp.block_dim()):
            total += wp.exp(x[j] - center)
        return total

    @wp.func
    def sum_of_exp_in_fours(x: vector, lane: int, center: element):
        total = four()
        for j in range(lane * FOUR, x.shape[0], wp.block_dim() * FOUR):
            total += exp_of(load(x, j), center)
        return (total[0] + total[1]) + (total[2] + total[3])

    @wp.kernel(module="unique")
    def softmax(x: matrix, out: matrix):
        row, lane = block_of(wp.tid()), thread_of_block()
        own, result = x[row], out[row]
        in_vectors = on_gpu() and own.shape[0] % FOUR == 0 and aligned(own) and aligned(result)
        if in_vectors and own.shape[0] <= PART * wp.block_dim():
            part = load_part(own, 0)
            powers = powers_of(part, largest_of_block(largest_of(part)))
            store_part(result, 0, powers * (element(1) / total_of_block(total_of(powers))))
        else:
            center = wp.tile_max(wp.tile(largest(own, in_vectors, lane)))[0]
            total = element(0)
            if in_vectors:  # noqa: SIM108  Warp would compute both sides of a conditional expression
                total = sum_of_exp_in_fours(own, lane, center)
            else:
                total = sum_of_exp(own, lane, center)
            scale = element(1) / wp.tile_sum(wp.tile(total))[0]
            if in_vectors:
                for j in range(lane * FOUR, own.shape[0], wp.block_dim() * FOUR):
                    store(result, j, exp_of(load(own, j), center) * scale)
            else:
                for j in range(lane, own.shape[0], wp.block_dim()):
                    result[j] = wp.exp(own[j] - center) * scale

    return softmax


def launch(inputs, outs):
    rows, columns = outs[0].shape
    # The checks compare the gradients, which the bridge cannot see to be right.
    return {**blocks(rows, threads_for(columns, outs[0].dtype)), "output_dims": outs[0].shape, "enable_backward": True}
