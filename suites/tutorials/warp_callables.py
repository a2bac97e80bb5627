# mypy: ignore-errors
# %% [markdown]
# # Functions that launch several Warp kernels
#
# `bridge.warp_callable` makes a Python function that launches Warp kernels a JAX operation on the CPU and on CUDA. The
# function runs once for each shape, when JAX traces the call. Native code then repeats what it did, without Python.
#
# ## Heat in a rod

# %%
import jax
import jax.numpy as jnp
import warp as wp

from bridge import warp_callable

FLOATS = wp.array(dtype=float)


@wp.struct
class Rod:
    conductivity: float
    steps: int


@wp.kernel
def spread(before: FLOATS, rod: Rod, after: FLOATS):
    i = wp.tid()
    left, right = before[wp.max(i - 1, 0)], before[wp.min(i + 1, before.shape[0] - 1)]
    after[i] = before[i] + rod.conductivity * (left + right - 2.0 * before[i])


def heat(start: FLOATS, rod: Rod, end: FLOATS):
    other = wp.empty(start.shape, dtype=float)
    wp.copy(end, start)
    for _ in range(rod.steps):
        wp.launch(spread, dim=start.shape, inputs=[end, rod], outputs=[other])
        wp.copy(end, other)


rod = Rod()
rod.conductivity, rod.steps = 0.25, 10
rods = jnp.zeros((3, 100)).at[:, 50].set(jnp.array([1.0, 2.0, 3.0]))
(ends,) = jax.jit(jax.vmap(lambda start: warp_callable(heat)(start, rod)))(rods)
assert jnp.allclose(ends.sum(axis=1), jnp.array([1.0, 2.0, 3.0]))

# %% [markdown]
# The struct is a static argument: its values are compiled into the call. Each rod is computed by itself.
#
# ## What cannot be recorded
#
# A recording has no values to read. The error says so, and what to do.


# %%
def normalise(x: FLOATS, out: FLOATS):
    wp.copy(out, wp.array(x.numpy() / x.numpy().max(), dtype=float))


try:
    warp_callable(normalise)(rods[2])
except RuntimeError as error:
    print(error)
(y,) = warp_callable(normalise, python_call=True)(rods[2])
assert y.max() == 1
