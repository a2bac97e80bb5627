"""Holds broken kernels in Triton."""

import jax.numpy as jnp

from bridge import triton_kernel
from suites.backends import BACKENDS
from suites.backends.triton import TritonCallable, TritonKernel, jit, tl
from suites.kernels.half_precision import HALVES
from suites.mutants.mutant import table
from suites.ops.add import OPERATOR as ADD
from suites.ops.add.triton import BLOCK, add_triton
from suites.ops.cumsum import OPERATOR as CUMSUM
from suites.ops.cumsum.triton import scan_triton
from suites.ops.matvec import OPERATOR as MATVEC
from suites.ops.matvec import triton as matvec_triton

MUTANTS, broken = table(BACKENDS["triton"])


def _launch(inputs, outs):
    return {"grid": -(-outs[0].size // BLOCK), "size": outs[0].size, "BLOCK": BLOCK}


broken(ADD, "compiled", "elements after the last whole block are never written", name="whole_blocks_triton")(
    TritonKernel(add_triton, lambda inputs, outs: _launch(inputs, outs) | {"size": outs[0].size // BLOCK * BLOCK})
)


def _restarts(inputs, outs):
    launch = _launch(inputs, outs)
    scan = triton_kernel(scan_triton, outs[0], **launch)
    return lambda x: scan(x, jnp.zeros(launch["grid"], x.dtype))


broken(CUMSUM, "large", "each block of a scan begins at zero", name="restarts_triton")(TritonCallable(_restarts))


@jit
def exponential(x, out, size, BLOCK: "tl.constexpr"):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, tl.exp(tl.load(x + i, i < size)), i < size)


broken(
    lambda x: jnp.exp(x), "drawn", "Triton's own exponential, which loses digits far from zero", name="fast_exp_triton"
)(TritonKernel(exponential, _launch))


@jit
def half_sums(A, x, out, columns, BLOCK: "tl.constexpr"):
    row = tl.program_id(0).to(tl.int64)
    sums = tl.zeros((BLOCK,), out.dtype.element_ty)
    for first in range(0, columns, BLOCK):
        j = first + tl.arange(0, BLOCK)
        inside = j < columns
        sums += tl.load(A + row * columns + j, inside, other=0) * tl.load(x + j, inside, other=0)
    tl.store(out + row, tl.sum(sums, axis=0))


broken(
    MATVEC,
    ("compiled", "drawn", "large"),
    "adds numbers of 16 bits up in 16 bits",
    name="half_sums_triton",
    dtypes=HALVES,
)(TritonKernel(half_sums, matvec_triton.launch))


@jit
def rectified(x, out, size, BLOCK: "tl.constexpr"):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, tl.maximum(tl.load(x + i, i < size), 0.0), i < size)


broken(lambda x: jnp.maximum(x, 0), "drawn", "Triton's maximum makes zero of NaN", name="lost_nan_triton")(
    TritonKernel(rectified, _launch)
)
