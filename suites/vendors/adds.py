"""Holds the kernels of add for the vendors' own calls. Their languages read annotations, which must not be text."""

# mypy: ignore-errors

import functools

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl

from bridge import tvm_ffi_kernel
from suites.backends.pallas import BLOCK
from suites.backends.triton import TritonKernel, jit, tl


def _cute_add():
    """The kernel of CuTe DSL, and a host function that launches it: a thread for each element."""
    from cutlass import cute

    @cute.kernel
    def add(x: cute.Tensor, y: cute.Tensor, out: cute.Tensor):
        i = cute.arch.block_idx()[0] * cute.arch.block_dim()[0] + cute.arch.thread_idx()[0]
        if i < cute.size(out):
            out[i] = x[i] + y[i]

    @cute.jit
    def launch(stream, x, y, out):
        if cute.size(out) > 0:
            add(x, y, out).launch(grid=((cute.size(out) + 255) // 256, 1, 1), block=(256, 1, 1), stream=stream)

    return launch


def cutlass_add(inputs, outs):
    """A call of CuTe DSL."""
    from cutlass.jax import cutlass_call

    return cutlass_call(_cute_add(), output_shape_dtype=outs[0])


def tvm_ffi_add(inputs, outs):
    """A call of a function of TVM-FFI through the bridge."""
    return tvm_ffi_kernel(tvm_function(str(outs[0].dtype)), outs[0], platform="cuda")


def jax_tvm_ffi_add(inputs, outs):
    """A call of the same function through ``jax_tvm_ffi``. JAX loops over batches, for the function takes vectors."""
    target = _registered(str(outs[0].dtype))
    return lambda x, y: jax.ffi.ffi_call(target, outs[0], vmap_method="sequential")(x, y)


@functools.cache
def _registered(dtype):
    """The FFI target of vectors of a dtype."""
    import jax_tvm_ffi

    compiled, target = tvm_function(dtype), f"suites.add_{dtype}"
    function = compiled.__tvm_ffi_object__() if hasattr(type(compiled), "__tvm_ffi_object__") else compiled
    jax_tvm_ffi.register_ffi_target(target, function, ["args", "rets"], platform="gpu")
    return target


@functools.cache
def tvm_function(dtype):
    """The kernel of CuTe DSL for vectors of a dtype, compiled to a function of TVM-FFI."""
    from cutlass import cute
    from cutlass.cute.runtime import make_fake_compact_tensor, make_fake_stream
    from cutlass.jax import jax_to_cutlass_dtype

    size = cute.sym_int()
    vectors = [make_fake_compact_tensor(jax_to_cutlass_dtype(jnp.dtype(dtype)), (size,)) for _ in range(3)]
    stream = make_fake_stream(use_tvm_ffi_env_stream=True)
    return cute.compile(_cute_add(), stream, *vectors, options="--enable-tvm-ffi")


def cutile_add(inputs, outs):
    """A call of cuTile: a block of threads for each tile."""
    import cuda.tile as ct
    from cuda.tile.jax import OutputPlaceholder, cutile_call

    @ct.kernel
    def add(x, y, out, BLOCK: ct.Constant[int]):
        i = ct.bid(0)
        ct.store(out, index=(i,), tile=ct.load(x, index=(i,), shape=(BLOCK,)) + ct.load(y, index=(i,), shape=(BLOCK,)))

    (out,) = outs
    grid = (pl.cdiv(out.size, BLOCK),)
    return lambda x, y: cutile_call(grid, add, (x, y, OutputPlaceholder(out.shape, out.dtype), BLOCK))


@jit
def _add(x, y, out, BLOCK: "tl.constexpr"):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i) + tl.load(y + i))


TRITON_ADD = TritonKernel(_add, lambda inputs, outs: {"grid": outs[0].size // BLOCK, "BLOCK": BLOCK})
"""For whole blocks."""
