"""Kernels of histogram in Warp."""

import functools

import jax.numpy as jnp

import bridge
from suites.kernels.numba_cuda.blocks import THREADS
from suites.kernels.warp.blocks import real, scalar, wp


@functools.cache
def count_warp(dtype):
    element, wider = scalar(dtype), real(dtype)

    @wp.kernel(module="unique", enable_backward=False)
    def count(x: wp.array(dtype=element), tables: wp.array2d(dtype=wp.int32)):
        i = wp.tid()
        if wider(x[i]) >= wider(0) and wider(x[i]) < wider(tables.shape[1]):
            wp.atomic_add(tables, (i // THREADS) & (tables.shape[0] - 1), int(wider(x[i])), 1)

    return count


@functools.cache
def add_tables_warp():
    vector = wp.array(dtype=wp.int32)

    @wp.kernel(module="unique", enable_backward=False)
    def add_tables(tables: wp.array2d(dtype=wp.int32), counts: vector, out: vector):
        i = wp.tid()
        total = counts[i]
        for table in range(tables.shape[0]):
            total += tables[table, i]
        out[i] = total

    return add_tables


COPIES = 64
"""The most tables that a Warp kernel counts in: with few bins the threads of a GPU would wait for each other.

Their number is a power of two, because a remainder by another number takes longer than all other work of a thread.
"""


def histogram_warp(inputs, outs):
    """Counts in several tables and adds them up. Together they have far fewer bins than x has elements."""
    size, bins = inputs[0].shape[0], outs[0].shape[0]
    copies = 1
    while copies < COPIES and 8 * copies * bins <= size:
        copies *= 2
    count = bridge.jax_kernel(count_warp(str(inputs[0].dtype)), launch_dims=size, in_out_argnames=["tables"])
    add_tables = bridge.jax_kernel(add_tables_warp(), launch_dims=bins)
    return lambda x, counts: add_tables(*count(x, jnp.zeros((copies, bins), jnp.int32)), counts)
