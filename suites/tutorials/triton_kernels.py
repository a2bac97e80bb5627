# mypy: ignore-errors
# %% [markdown]
# # Triton kernels as JAX operations
#
# `bridge.triton_kernel` takes a function decorated with `triton.jit`. Triton compiles it. XLA launches it on its own
# stream, without Python in the call. You need the extra `triton`, and neither PyTorch nor `jax_triton`.
#
# ## A kernel
#
# A Triton program works on a block of elements. The pointers are the inputs and then the outputs. All other parameters
# are values, which you pass by name.

# %%
import jax
import jax.numpy as jnp
import numpy as np

from bridge import XLACustomKernel, triton_kernel

try:
    import triton
    import triton.language as tl
except ImportError as error:
    print(f"This machine has no Triton, so the rest is left out ({error}).")
    raise SystemExit from None


@triton.jit
def normalise(x, weight, out, columns, BLOCK: tl.constexpr):
    row, j = tl.program_id(0), tl.arange(0, BLOCK)
    values = tl.load(x + row * columns + j, j < columns, other=0)
    scale = 1 / tl.sqrt(tl.sum(values * values, axis=0) / columns + 1e-6)
    tl.store(out + row * columns + j, values * scale * tl.load(weight + j, j < columns), j < columns)


# %% [markdown]
# ## Its JAX function
#
# The number of programs and the values follow from the shapes, so a function of your own makes the call. Equal
# arguments give the same wrapper: nothing is compiled twice.


# %%
def rms_norm(x, weight):
    rows, columns = x.shape
    block = triton.next_power_of_2(columns)
    call = triton_kernel(normalise, jax.typeof(x), grid=rows, columns=columns, BLOCK=block, num_warps=4)
    return call(x, weight)


# %% [markdown]
# ## An operator for every platform
#
# Without a GPU another kernel runs. A batch of Triton calls is a loop in native code.

# %%
norm = XLACustomKernel("rms_norm", outs=lambda x, weight: jax.ShapeDtypeStruct(x.shape, x.dtype))
norm.def_triton_kernel(lambda outs: rms_norm)
norm.def_jnp_kernel(lambda outs: lambda x, weight: x * jax.lax.rsqrt((x**2).mean(1, keepdims=True) + 1e-6) * weight)

x, weight = jnp.asarray(np.random.default_rng(0).standard_normal((64, 300)), jnp.float32), jnp.ones(300)
result = jax.jit(jax.vmap(norm, (0, None)))(jnp.stack([x, 2 * x]), weight)
np.testing.assert_allclose((result**2).mean(2), 1, rtol=1e-3)
print(f"{jax.default_backend()}: every row has the mean square 1")
