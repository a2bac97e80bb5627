"""scatter_add: ``acc[targets[i]] += values[i] * scale[0]`` for each i. Targets come in any order, some more than once.

Nominal size is the number of values. Precondition: ``targets`` lie within ``acc``. Checking that would cost as much as
adding.
"""

import functools

import jax
import numba
import numpy as np

from suites import (
    CudaKernel,
    ErrorCase,
    Failure,
    Gradient,
    Operator,
    Sizes,
    Truth,
    WarpKernel,
    bounded,
    exact,
    partial_sums_at,
    quantum,
    total_bytes,
    value_errors,
    vectors,
    wide,
)
from suites import values as some_values
from suites.backends.numba_cpu import ONE_THREAD_BELOW, add_partials, copy_to
from suites.backends.numba_cuda import THREADS, cuda, kernel, load, tile, tile_count
from suites.backends.warp import scalar, wp

PER_SLOT = 8
"""The mean number of values per element of acc in a sample."""


@numba.njit
def scatter_part(values, targets, factor, out, first, last):
    """Adds the values from ``first`` up to ``last``."""
    for i in range(first, last):
        out[np.uint32(targets[i])] += values[i] * factor


@numba.njit
def scatter_add(values, targets, scale, acc, out):
    if values.size != targets.size:
        raise ValueError("scatter_add: values and targets must have one length")
    copy_to(out, acc)
    scatter_part(values, targets, scale[0], out, 0, values.size)


@numba.njit(parallel=True)
def scatter_add_parallel(values, targets, scale, acc, out):
    """Each part of the values has its own accumulator, so that no two threads share an element.

    There are at most as many parts as values per element. So the accumulators take no more work than the values.
    """
    parts = min(numba.get_num_threads(), values.size // max(acc.size, 1))
    if values.size < ONE_THREAD_BELOW or parts < 2:
        scatter_add(values, targets, scale, acc, out)
    else:
        if values.size != targets.size:
            raise ValueError("scatter_add: values and targets must have one length")
        partials = np.zeros((parts, acc.size), acc.dtype)
        for part in numba.prange(parts):
            first, last = values.size * part // parts, values.size * (part + 1) // parts
            scatter_part(values, targets, scale[0], partials[part], first, last)
        add_partials(acc, partials, out)


@kernel
def scatter_add_cuda(values, targets, scale, acc, out):
    """Adds to ``out``, which lies in the memory of ``acc``."""
    factor = scale[0]
    i, step, full = tile(values.size)
    if full:
        a, slots = load(values, i, step), load(targets, i, step)
        cuda.atomic.add(out, np.uint64(slots[0]), a[0] * factor)
        cuda.atomic.add(out, np.uint64(slots[1]), a[1] * factor)
        cuda.atomic.add(out, np.uint64(slots[2]), a[2] * factor)
        cuda.atomic.add(out, np.uint64(slots[3]), a[3] * factor)
    else:
        while i < np.uint64(values.size):
            cuda.atomic.add(out, np.uint64(targets[i]), values[i] * factor)
            i += step


def _launch(inputs, outs):
    # At least one block: without values the result is acc, which a launch of no block would not write.
    blocks = max(tile_count(inputs[0].shape[0]), 1)
    return {"grid": blocks, "block": THREADS, "input_output_aliases": {3: 0}}


@functools.cache
def scatter_add_warp(dtype):
    real = scalar(dtype)

    @wp.kernel(module="unique")
    def scatter_add(
        values: wp.array(dtype=real),
        targets: wp.array(dtype=wp.int32),
        scale: wp.array(dtype=real),
        acc: wp.array(dtype=real),
    ):
        i = wp.tid()
        wp.atomic_add(acc, targets[i], values[i] * scale[0])

    return scatter_add


def _reference(values, targets, scale, acc):
    return [acc.at[targets].add(values * scale[0])]


def _truth(values, targets, scale, acc):
    """A product is rounded once and passes through as many additions as its element has values, in any order."""
    if values.dtype.kind != "f":
        value = acc.copy()
        np.add.at(value, targets, values * scale[0])  # integers wrap around
        return Truth((exact(value),))
    with np.errstate(invalid="ignore", over="ignore"):
        products = wide(values) * wide(scale)
        value, condition = wide(acc), np.abs(wide(acc))
        np.add.at(value, targets, products)
        np.add.at(condition, targets, np.abs(products))
    places = np.concatenate([np.arange(acc.size), targets])
    partial = partial_sums_at(np.concatenate([wide(acc), products]), places, acc.size)
    terms = np.bincount(targets, minlength=acc.size) + 1
    whole = np.minimum(quantum(values) * quantum(scale), quantum(acc))
    bound = {"condition": condition, "partial": partial, "quantum": whole, "terms": terms, "flushed": terms + 1}
    return Truth((bounded(value, acc.dtype, **bound),))


def _sample(dtype, size, seed):
    """The numbers of values per element differ by two orders of magnitude; some elements have none."""
    random = np.random.default_rng(seed)
    slots = max(1, size // PER_SLOT)
    weights = random.lognormal(0, 1, slots) * (random.random(slots) > 0.05)
    weights = weights if weights.any() else np.ones(slots)
    targets = np.searchsorted(np.cumsum(weights / weights.sum()), random.random(size))
    return _call(dtype, np.minimum(targets, slots - 1), slots, random)


def _call(dtype, targets, slots, random):
    targets = np.asarray(targets, np.int32)
    scale = np.full(1, 0.3 if np.dtype(dtype).kind == "f" else 3, dtype)
    return some_values(dtype, targets.size, random), targets, scale, some_values(dtype, slots, random)


def _edges(dtype):
    random = np.random.default_rng(5)
    cases = {
        "no_values": _call(dtype, [], 7, random),
        "no_slots": _call(dtype, [], 0, random),
        "one": _call(dtype, [0], 1, random),
        "all_to_one": _call(dtype, np.full(1031, 2), 5, random),
        "one_each_backwards": _call(dtype, np.arange(257)[::-1], 257, random),
        "more_slots_than_values": _call(dtype, random.integers(0, 1031, 33), 1031, random),
    }
    names = ("nan", "both_infs", "subnormal", "huge", "minus_zero") if np.dtype(dtype).kind == "f" else ("extremes",)
    for name in names:
        vector = vectors(dtype)[name]
        ones = np.ones(1, dtype)
        cases[name] = (vector, np.arange(vector.size, dtype=np.int32) // 2, ones, vector[::-1].copy())
    return cases


_LENGTHS = "scatter_add: values and targets must have one length"

OPERATOR = Operator(
    name="scatter_add",
    version=1,
    outputs=lambda values, targets, scale, acc: [jax.ShapeDtypeStruct(acc.shape, acc.dtype)],
    reference=_reference,
    truth=_truth,
    kernels={
        "numba": scatter_add,
        "numba_parallel": scatter_add_parallel,
        "numba_cuda": CudaKernel(scatter_add_cuda, _launch, atomic=True),
        "warp": WarpKernel(
            scatter_add_warp,
            lambda inputs, outs: {"launch_dims": inputs[0].shape, "in_out_argnames": ["acc"]},
            atomic=True,
        ),
    },
    dtypes=("float32", "float64", "int32"),
    sample=_sample,
    edges=_edges,
    errors=(
        ErrorCase(
            "unequal_lengths",
            lambda: (np.ones(5, np.float32), np.zeros(4, np.int32), np.ones(1, np.float32), np.zeros(3, np.float32)),
            {"jnp": Failure(ValueError, "Incompatible (types|shapes)"), **value_errors(_LENGTHS, in_launches=())},
        ),
    ),
    gradient=Gradient({0: 1, 2: lambda values, *_: values.size + 1, 3: 0}),
    bytes_read=total_bytes,
    bytes_written=lambda values, targets, scale, acc: total_bytes(acc),
    flops=lambda values, targets, scale, acc: 2 * values.size,
    sizes=Sizes(quick=(2**20,), cuda_quick=(2**22,)),
)
