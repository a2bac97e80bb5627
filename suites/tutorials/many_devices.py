# mypy: ignore-errors
# %% [markdown]
# # A spiking network on many devices
#
# Kernels scale out as every JAX operation does: with a mesh, `jax.shard_map`, and JAX's own collectives. Nothing of
# `bridge` is special there. This page splits a network of spiking neurons over all devices that JAX has: the CPU
# devices of one process, the GPUs of one machine, or the devices of several processes.
#
# 1. Devices and processes
# 2. Three kernels
# 3. What a device holds
# 4. One step, with its communication
# 5. Many steps, on any number of devices
# 6. Is it right?
# 7. Several processes, and real sizes

# %% [markdown]
# ## 1. Devices and processes
#
# Started as it is, this page runs in one process: on all of its GPUs, or on four CPU devices. Section 7 starts several
# processes. `jax.distributed.initialize` then connects them before anything else uses JAX, and `jax.devices()` lists
# the devices of all.

# %%
import os

import jax
import jax.numpy as jnp
import numpy as np
import warp as wp
from jax import lax
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

import bridge
from bridge import jax_kernel

if hasattr(wp, "LOG_WARNING"):
    wp.config.log_level = wp.LOG_WARNING
else:  # older releases
    wp.config.quiet = True

PROCESSES = int(os.environ.get("PROCESSES", "1"))
jax.config.update("jax_num_cpu_devices", max(1, 4 // PROCESSES))
if PROCESSES > 1:
    jax.distributed.initialize(os.environ["COORDINATOR"], PROCESSES, int(os.environ["PROCESS"]))

mesh = Mesh(jax.devices(), ("neurons",))
print(f"bridge {bridge.__version__}, jax {jax.__version__}, {mesh.size} x {jax.devices()[0].device_kind}")

# %% [markdown]
# ## 2. Three kernels
#
# A leaky integrate-and-fire step works on each neuron alone. Two sparse products bring the spikes to their targets.
# Their matrices have `SYNAPSES` entries in each row: `column[row, k]` is the neuron at the other end, `weight[row, k]`
# its weight. The first product has a row for each neuron that *receives*: the thread of a row looks at its senders.
# The second has a row for each neuron that *sends*: the thread of a row adds to its targets, by atomic operations.


# %%
floats, integers = wp.array(dtype=float), wp.array(dtype=int)
float_rows, integer_rows = wp.array2d(dtype=float), wp.array2d(dtype=int)


@wp.kernel(enable_backward=False)
def integrate(V: floats, current: floats, V_out: floats, fired: integers):
    i = wp.tid()
    v = V[i] + (current[i] - (V[i] + 70.0) / 16.0)
    fired[i] = wp.where(v >= -55.0, 1, 0)
    V_out[i] = wp.where(v >= -55.0, -70.0, v)


@wp.kernel(enable_backward=False)
def gather(column: integer_rows, weight: float_rows, fired: integers, out: floats):
    i = wp.tid()
    out[i] = 0.0
    for k in range(column.shape[1]):
        if fired[column[i, k]] != 0:
            out[i] += weight[i, k]


@wp.kernel(enable_backward=False)
def scatter(column: integer_rows, weight: float_rows, fired: integers, out: floats):
    i = wp.tid()
    if fired[i] != 0:
        for k in range(column.shape[1]):
            wp.atomic_add(out, column[i, k], weight[i, k])


integrate_fn = jax_kernel(integrate, num_outputs=2)
gather_fn = jax_kernel(gather)
scatter_fn = jax_kernel(scatter, in_out_argnames=["out"])

# %% [markdown]
# ## 3. What a device holds
#
# Each device draws its own rows. What a neuron gets depends on its number only, not on the number of devices, so the
# network is the same on one device and on eight. Nothing is ever made in one place and then distributed.
#
# Weights are multiples of 1/1024. Sums of them are exact in float32, in any order. So neither the atomic operations
# nor the collectives can change a bit, and results can be compared exactly.

# %%
NEURONS, SYNAPSES, STEPS = 2048 // mesh.size * mesh.size, 32, 100


def draw_rows(stream, neurons, rows):
    """Columns and weights of some rows."""

    def row(number):
        key = jax.random.fold_in(jax.random.key(stream), number)
        words = jax.random.randint(key, (2, SYNAPSES), 0, neurons * 256)
        return words[0] % neurons, (words[1] % 256).astype(jnp.float32) / 1024

    return jax.vmap(row)(rows)


def draw(neurons, devices):
    """The rows of one device, inside of `shard_map`: excitatory and inhibitory synapses, and potentials."""
    part = neurons // devices
    rows = lax.axis_index("neurons") * part + jnp.arange(part)
    V = -70.0 + (rows * 37 % 960).astype(jnp.float32) / 64
    return draw_rows(1, neurons, rows), draw_rows(2, neurons, rows), V


# %% [markdown]
# ## 4. One step, with its communication
#
# The function below runs on every device, on its own part. It has the two patterns that sparse networks need:
#
# - Rows by *receiver* need the spikes of all neurons: `all_gather`. A spike is a few bits, so this is little.
# - Rows by *sender* give currents for all neurons: each device has a full vector, and `psum_scatter` sums them and
#   leaves each device its part.
#
# `lax.pcast` says that each device has its own vector of zeros. Without it, `shard_map` refuses to add different
# values to what it takes for the same value on all devices.


# %%
def step(excitatory, inhibitory, V, fired):
    all_fired = lax.all_gather(fired, "neurons", tiled=True)
    (received,) = gather_fn(*excitatory, all_fired, launch_dims=V.shape, output_dims=V.shape)
    zeros = lax.pcast(jnp.zeros(all_fired.shape), "neurons", to="varying")
    (sent,) = scatter_fn(*inhibitory, fired, zeros, launch_dims=V.shape)
    inhibition = lax.psum_scatter(sent, "neurons", tiled=True)
    return integrate_fn(V, 1.0 + received - inhibition)


# %% [markdown]
# ## 5. Many steps, on any number of devices
#
# The loop is inside of `shard_map`, so that the whole run is one program: no step returns to Python.


# %%
def simulation(mesh, neurons=NEURONS):
    """A function without arguments that runs the network on a mesh; returns potentials, and counts of spikes."""

    def run():
        excitatory, inhibitory, V = draw(neurons, mesh.size)

        def body(_, state):
            V, fired, counts = state
            V, fired = step(excitatory, inhibitory, V, fired)
            return V, fired, counts + fired

        silent = jnp.zeros_like(V, jnp.int32)
        V, _, counts = lax.fori_loop(0, STEPS, body, (V, silent, silent))
        return V, counts

    return jax.jit(jax.shard_map(run, mesh=mesh, in_specs=(), out_specs=P("neurons")))


V, counts = simulation(mesh)()
assert V.sharding.is_equivalent_to(NamedSharding(mesh, P("neurons")), 1)


# %% [markdown]
# Arrays on the devices of several processes cannot be read in one of them. Copies on every device can.


# %%
def whole(mesh, array):
    """A split array as one NumPy array, in every process."""
    replicated = jax.jit(lambda array: array, out_shardings=NamedSharding(mesh, P()))
    return np.asarray(replicated(array).addressable_data(0))


V, counts = whole(mesh, V), whole(mesh, counts)
print(f"{NEURONS} neurons, {STEPS} steps: {counts.sum()} spikes, mean potential {V.mean():.6f}")
assert NEURONS < counts.sum() < NEURONS * STEPS / 4

# %% [markdown]
# ## 6. Is it right?
#
# On one device the same network gives the same bits. And it agrees with dense matrices in `jnp`, up to rounding.

# %%
alone = Mesh(jax.local_devices()[:1], ("neurons",))
V_alone, counts_alone = (whole(alone, array) for array in simulation(alone)())
np.testing.assert_array_equal(V, V_alone)
np.testing.assert_array_equal(counts, counts_alone)


def dense(columns_and_weights):
    columns, weights = columns_and_weights
    rows = jnp.arange(NEURONS)[:, None]
    return jnp.zeros((NEURONS, NEURONS)).at[rows, columns].add(weights)


@jax.jit
def reference():
    everyone = jnp.arange(NEURONS)
    receiving, sending = (dense(draw_rows(stream, NEURONS, everyone)) for stream in (1, 2))

    def body(_, state):
        V, fired, counts = state
        current = 1.0 + receiving @ fired - fired @ sending
        V = V + (current - (V + 70.0) / 16.0)
        fired = (V >= -55.0).astype(jnp.float32)
        return jnp.where(fired > 0, -70.0, V), fired, counts + fired

    V = -70.0 + (everyone * 37 % 960).astype(jnp.float32) / 64
    return lax.fori_loop(0, STEPS, body, (V, jnp.zeros(NEURONS), jnp.zeros(NEURONS)))


with jax.default_matmul_precision("highest"):
    V_dense, _, counts_dense = reference()
np.testing.assert_array_equal(counts, counts_dense)
np.testing.assert_allclose(V, V_dense, atol=1e-3)
print("the same bits on one device, and the same spikes as with dense matrices")

# %% [markdown]
# ## 7. Several processes, and real sizes
#
# On one machine, two processes of this page share four CPU devices like this:
#
# ```
# export PROCESSES=2 COORDINATOR=localhost:12345 JAX_PLATFORMS=cpu
# PROCESS=0 python suites/tutorials/many_devices.py &
# PROCESS=1 python suites/tutorials/many_devices.py
# ```
#
# On several machines, each starts its processes with the address of the first one. On a cluster that JAX knows (Slurm,
# Kubernetes, Cloud TPU), `jax.distributed.initialize()` finds these values by itself.
#
# Published figures of such a network on two GPUs are in `reports/published`.
