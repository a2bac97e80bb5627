# mypy: ignore-errors
# %% [markdown]
# # cuTile kernels as JAX operations
#
# `bridge.cutile_kernel` takes a function decorated with `cuda.tile.kernel`, NVIDIA's language for tiles. XLA launches
# it on its own stream, without Python in the call. You need the extra `cutile`, and a driver for CUDA 13.
#
# ## A kernel
#
# A block of a cuTile kernel works on tiles: parts of an array whose sides are powers of two. The compiler moves them,
# and multiplies them on tensor cores. The arrays are the inputs and then the outputs. All other parameters are values,
# which you pass by name.

# %%
import jax
import jax.numpy as jnp
import numpy as np

from bridge import XLACustomKernel, cutile_kernel

try:
    import cuda.tile as ct
except ImportError as error:
    print(f"This machine has no cuTile, so the rest is left out ({error}).")
    raise SystemExit from None


@ct.kernel
def biased_product(a, b, bias, out, SIDE: ct.Constant[int]):
    i, j = ct.bid(0), ct.bid(1)
    total = ct.zeros((SIDE, SIDE), ct.float32)
    for k in range(ct.cdiv(a.shape[1], SIDE)):
        left = ct.load(a, (i, k), (SIDE, SIDE), padding_mode=ct.PaddingMode.ZERO)
        right = ct.load(b, (k, j), (SIDE, SIDE), padding_mode=ct.PaddingMode.ZERO)
        total = ct.mma(left, right, total)
    ct.store(out, (i, j), ct.astype(total + ct.load(bias, j, SIDE), out.dtype))


# %% [markdown]
# ## Its JAX function
#
# The number of blocks follows from the shapes, so a function of your own makes the call. Equal arguments give the same
# wrapper: nothing is compiled twice. Hints for the compiler are those of cuTile:
# `biased_product.replace_hints(num_ctas=2)` is another kernel.


# %%
def layer(a, b, bias):
    out = jax.ShapeDtypeStruct((a.shape[0], b.shape[1]), a.dtype)
    grid = ct.cdiv(out.shape[0], 64), ct.cdiv(out.shape[1], 64)
    return cutile_kernel(biased_product, out, grid=grid, SIDE=64)(a, b, bias)


# %% [markdown]
# ## An operator for every platform
#
# Without a GPU another kernel runs. A batch of cuTile calls is a loop in native code.

# %%
linear = XLACustomKernel("linear", outs=lambda a, b, bias: jax.ShapeDtypeStruct((a.shape[0], b.shape[1]), a.dtype))
linear.def_cutile_kernel(lambda outs: layer)
linear.def_jnp_kernel(lambda outs: lambda a, b, bias: a @ b + bias)

a, b = np.random.default_rng(0).integers(-3, 4, (2, 100, 100)).astype(np.float16)
result = jax.jit(jax.vmap(linear, (0, None, None)))(jnp.stack([a, 2 * a]), b, jnp.ones(100, jnp.float16))
np.testing.assert_array_equal(result, jnp.stack([a @ b + 1, 2 * a @ b + 1]))
print(f"{jax.default_backend()}: both products are right")
