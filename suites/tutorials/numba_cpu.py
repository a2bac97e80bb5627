# mypy: ignore-errors
# %% [markdown]
# # Numba kernels as JAX operations, on the CPU
#
# You write a loop in Python, Numba compiles it, and `bridge` lets XLA call the machine code. From then on it is
# an operation like any other: under `jax.jit`, inside `lax.scan`, mapped by `jax.vmap`, exported to another
# process.
#
# Every claim below is followed by code that shows it and, mostly, by an `assert` that would fail if it were
# wrong.
#
# 1. When a kernel is worth writing
# 2. Setting up
# 3. Writing kernels
# 4. Calling them from JAX: `numba_kernel`
# 5. Under `jax.jit`, and in loops
# 6. Parallel kernels
# 7. Several inputs and outputs: spiking neurons
# 8. Operators with static parameters: `XLACustomKernel`
# 9. A sparse matrix-vector product
# 10. One operator, several backends
# 11. `jax.vmap`
# 12. Read-only inputs, and updating in place
# 13. Half precision
# 14. When a kernel raises
# 15. Attaching a gradient
# 16. Exporting a program
# 17. Giving memory back

# %% [markdown]
# ## 1. When a kernel is worth writing
#
# XLA is good at whole-array arithmetic: it fuses, vectorises and schedules it. A kernel of your own pays off
# where the algorithm is a loop rather than an array expression:
#
# | the algorithm | in `jnp` | as a kernel |
# |---|---|---|
# | stops early, or branches per element | computes both sides and selects | an `if`, a `break` |
# | carries state from one element to the next | a scan, one program step per element | a loop variable |
# | follows indices (sparse rows, graphs, trees) | gather, scatter and segment sums with temporaries | indexing |
# | makes several results in one pass | fused if XLA sees how | written next to each other |
#
# What usually speaks against it is the price of leaving XLA. Here that price is small: XLA calls the compiled
# kernel directly. No Python runs during the call, arrays are not copied, and the GIL stays free.

# %% [markdown]
# ## 2. Setting up
#
# Numba's OpenMP threads wait by spinning, which takes cores away from XLA's own threads when parallel kernels and
# other operations alternate. `OMP_WAIT_POLICY=passive` makes them sleep instead. OpenMP reads it once, before the
# first parallel kernel. The second setting keeps JAX on the CPU on a machine that also has a GPU: these kernels
# run on the host.

# %%
import os

os.environ.setdefault("OMP_WAIT_POLICY", "passive")

import math
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.export
import jax.numpy as jnp
import numba
import numpy as np

import bridge
from bridge import XLACustomKernel, numba_kernel

jax.config.update("jax_platforms", "cpu")
random = np.random.default_rng(7)
print(f"bridge {bridge.__version__}, jax {jax.__version__}, numba {numba.__version__}, {os.cpu_count()} cores")


# %% [markdown]
# Two helpers for this page: the specification of a float32 result, and the message of an error that is expected.


# %%
def f32(*shape):
    return jax.ShapeDtypeStruct(shape, jnp.float32)


def message_of(error, call):
    try:
        jax.block_until_ready(call())
    except error as caught:
        return str(caught)
    raise AssertionError(f"expected {error.__name__}")


# %% [markdown]
# ## 3. Writing kernels
#
# A kernel is a function under `numba.njit`. Its parameters are the inputs, then the outputs, all of them
# C-contiguous NumPy arrays over XLA's buffers. It returns nothing and assigns *every* element of *every* output:
# an output starts with whatever its memory held before.
#
# Any dtype that Numba has works: booleans, 8- to 64-bit integers, float32 and float64, complex64 and complex128.
# float16 and bfloat16 work too, see section 13.
#
# ### Element by element


# %%
@numba.njit
def hypotenuse(a, b, out):
    for i in range(out.size):
        out[i] = math.sqrt(a[i] * a[i] + b[i] * b[i])


@numba.njit
def soft_threshold(x, out):
    for i in range(x.size):
        if x[i] > 1:
            out[i] = x[i] - 1
        elif x[i] < -1:
            out[i] = x[i] + 1
        else:
            out[i] = 0


@numba.njit
def running_peak(x, out):
    """Each element depends on the one before, which an array expression cannot say."""
    peak = x[0]
    for i in range(x.size):
        peak = max(peak, x[i])
        out[i] = peak


# %% [markdown]
# ### Reductions
#
# A single number is a 0-d output, assigned with `out[()]`. The accumulator is yours to choose: float64 costs
# little here and keeps long float32 sums exact to the last digits.


# %%
@numba.njit
def dot(x, y, out):
    total = 0.0
    for i in range(x.size):
        total += x[i] * y[i]
    out[()] = total


@numba.njit
def row_dots(A, B, out):
    rows, columns = A.shape
    for i in range(rows):
        total = 0.0
        for j in range(columns):
            total += A[i, j] * B[i, j]
        out[i] = total


@numba.njit
def moments(x, mean, variance):
    """Mean and variance in one pass over the data, by Welford's update."""
    center, spread = 0.0, 0.0
    for i in range(x.size):
        distance = x[i] - center
        center += distance / (i + 1)
        spread += distance * (x[i] - center)
    mean[()] = center
    variance[()] = spread / x.size


# %% [markdown]
# ## 4. Calling them from JAX: `numba_kernel`
#
# ```python
# numba_kernel(kernel, outs, *, vmap_method=None, input_output_aliases=None)
# ```
#
# `outs` says what the results are: one `jax.ShapeDtypeStruct`, or a list or any other pytree of them. The result
# has the same structure, so one struct gives one array.

# %%
a = jnp.asarray(random.normal(size=1000), jnp.float32)
b = jnp.asarray(random.normal(size=1000), jnp.float32)

length = numba_kernel(hypotenuse, f32(1000))(a, b)
assert isinstance(length, jax.Array)
np.testing.assert_allclose(length, np.hypot(a, b), rtol=1e-6)

shrunk = numba_kernel(soft_threshold, f32(1000))(a)
np.testing.assert_array_equal(shrunk, jnp.sign(a) * jnp.maximum(jnp.abs(a) - 1, 0))

peaks = numba_kernel(running_peak, f32(1000))(a)
np.testing.assert_array_equal(peaks, jax.lax.cummax(a))
print(f"the running peak of 1000 normal samples ends at {peaks[-1]:.3f}")

# %%
inner = numba_kernel(dot, f32())(a, b)
assert inner.shape == ()
np.testing.assert_allclose(inner, np.dot(np.float64(a), np.float64(b)), rtol=1e-6)

A, B = a.reshape(20, 50), b.reshape(20, 50)
np.testing.assert_allclose(numba_kernel(row_dots, f32(20))(A, B), (A * B).sum(axis=1), rtol=1e-4, atol=1e-4)

mean, variance = numba_kernel(moments, [f32(), f32()])(a)
print(f"mean {mean:.4f} (jnp {a.mean():.4f}), variance {variance:.4f} (jnp {a.var():.4f})")
np.testing.assert_allclose([mean, variance], [a.mean(), a.var()], rtol=1e-4, atol=1e-6)

# %% [markdown]
# The kernel is compiled when JAX traces the call, for the dtypes and ranks it finds there. Sizes are not part of
# that: another size of input runs the same machine code. Wrapping the same kernel with the same `outs` again
# returns the function that already exists, so it does not matter where in your code the wrapping happens.

# %%
assert numba_kernel(dot, f32()) is numba_kernel(dot, f32())
numba_kernel(dot, f32())(a[:10], b[:10])
assert len(dot.signatures) == 1  # compiled once for two sizes

# %% [markdown]
# ## 5. Under `jax.jit`, and in loops
#
# Kernels mix with other operations. Inside a compiled loop a call costs about as much as calling a C++ function
# through XLA's foreign function interface, because that is what happens.


# %%
@jax.jit
def normalised(x):
    mean, variance = numba_kernel(moments, [f32(), f32()])(x)
    return (x - mean) / jnp.sqrt(variance)


z = normalised(a)
print(f"normalised: mean {z.mean():+.1e}, standard deviation {z.std():.6f}")
assert abs(z.mean()) < 1e-5
assert abs(z.std() - 1) < 1e-5

shrink = numba_kernel(soft_threshold, f32(1000))
thrice = jax.lax.fori_loop(0, 3, lambda _, x: shrink(x), 10 * a)
np.testing.assert_allclose(thrice, jnp.sign(a) * jnp.maximum(jnp.abs(10 * a) - 3, 0), atol=1e-5)

# %% [markdown]
# ## 6. Parallel kernels
#
# `numba.njit(parallel=True)` spreads the iterations of `numba.prange` over threads. Iterations must not depend on
# each other; sums and products over the loop are recognised as reductions. Parallelise the outer loop, and leave
# the inner ones alone.


# %%
@numba.njit(parallel=True)
def row_dots_parallel(A, B, out):
    rows, columns = A.shape
    for i in numba.prange(rows):
        total = 0.0
        for j in range(columns):
            total += A[i, j] * B[i, j]
        out[i] = total


def median_ms(function, *args, samples=20):
    jax.block_until_ready(function(*args))  # the first call compiles
    times = []
    for _ in range(samples):
        start = time.perf_counter()
        jax.block_until_ready(function(*args))
        times.append(1e3 * (time.perf_counter() - start))
    return np.median(times)


A = jnp.asarray(random.normal(size=(2000, 1000)), jnp.float32)
B = jnp.asarray(random.normal(size=(2000, 1000)), jnp.float32)
serial, parallel = numba_kernel(row_dots, f32(2000)), numba_kernel(row_dots_parallel, f32(2000))
np.testing.assert_array_equal(serial(A, B), parallel(A, B))
print(f"row_dots of 2000 x 1000: serial {median_ms(serial, A, B):.2f} ms, parallel {median_ms(parallel, A, B):.2f} ms")
print(f"in {numba.get_num_threads()} parts, which XLA's threads run")

# %% [markdown]
# Waking threads costs some microseconds, so small arrays are faster serially; measure before you decide.
# `NUMBA_NUM_THREADS` sets how many parts a loop has. Calls from several Python threads and devices at once are
# safe. A process that is *forked* after JAX was used must not call kernels, so start workers with the `spawn`
# method of `multiprocessing`.

# %% [markdown]
# ## 7. Several inputs and outputs: spiking neurons
#
# One step of leaky integrate-and-fire neurons with a refractory period: the membrane potential relaxes towards
# the input current; where it reaches the threshold the neuron spikes, is reset, and ignores its input for some
# steps. There are three inputs, and three outputs of three dtypes. `outs` is a `NamedTuple`, so that results have
# names. Python globals such as `DECAY` are compiled in.

# %%
DECAY = math.exp(-1 / 20)
THRESHOLD, RESET, REFRACTORY_STEPS = 1.0, 0.0, 5


@numba.njit(parallel=True)
def neuron_step(potential, waiting, current, new_potential, new_waiting, spiked):
    for i in numba.prange(potential.size):
        v = current[i] + (potential[i] - current[i]) * DECAY
        spiked[i] = waiting[i] == 0 and v >= THRESHOLD
        if spiked[i]:
            new_potential[i], new_waiting[i] = RESET, REFRACTORY_STEPS
        elif waiting[i] > 0:
            new_potential[i], new_waiting[i] = RESET, waiting[i] - 1
        else:
            new_potential[i], new_waiting[i] = v, 0


class Neurons(NamedTuple):
    potential: Any
    waiting: Any
    spiked: Any


COUNT = 2000
neurons = numba_kernel(
    neuron_step,
    Neurons(f32(COUNT), jax.ShapeDtypeStruct((COUNT,), jnp.int32), jax.ShapeDtypeStruct((COUNT,), jnp.bool_)),
)


def neurons_in_jnp(potential, waiting, current):
    v = current + (potential - current) * DECAY
    spiked = (waiting == 0) & (v >= THRESHOLD)
    new_waiting = jnp.where(spiked, REFRACTORY_STEPS, jnp.maximum(waiting - 1, 0))
    return Neurons(jnp.where(spiked | (waiting > 0), RESET, v), new_waiting, spiked)


# Multiples of 1/64 keep every potential away from the threshold, where rounding would decide who spikes.
potential = jnp.asarray(random.integers(0, 64, COUNT) / 64, jnp.float32)
waiting = jnp.asarray(random.integers(0, 3, COUNT), jnp.int32)
current = jnp.asarray(random.integers(65, 192, COUNT) / 64, jnp.float32)

after, expected = neurons(potential, waiting, current), neurons_in_jnp(potential, waiting, current)
np.testing.assert_array_equal(after.spiked, expected.spiked)
np.testing.assert_array_equal(after.waiting, expected.waiting)
np.testing.assert_allclose(after.potential, expected.potential, atol=1e-6)


# %% [markdown]
# `lax.scan` runs the kernel over time, without returning to Python between the steps.


# %%
@jax.jit
def simulate(potential, waiting, currents):
    def advance(state, current):
        after = neurons(*state, current)
        return (after.potential, after.waiting), after.spiked.sum()

    return jax.lax.scan(advance, (potential, waiting), currents)[1]


spikes = simulate(potential, waiting, jnp.broadcast_to(current, (200, COUNT)))
print(f"{int(spikes.sum())} spikes of {COUNT} neurons in 200 steps, {int(spikes.max())} at once at most")
assert 0 < spikes.sum() <= COUNT * 200 / (REFRACTORY_STEPS + 1)

# %% [markdown]
# The outputs of a kernel are the leaves of `outs` in the order of `jax.tree.leaves`. For lists, tuples and named
# tuples that is the order you see. A dict's leaves are sorted by key, so a kernel's parameters have to be in that
# order too.

# %%
assert jax.tree.leaves({"mean": 1, "count": 2}) == [2, 1]

# %% [markdown]
# ## 8. Operators with static parameters: `XLACustomKernel`
#
# An operator has a name, takes static parameters, and may have several implementations. What you register is a
# *generator*: it receives the parameters of the call and `outs` as a tuple of specs, and returns the function
# that handles the arrays. Values that the kernel closes over become constants of its machine code.

# %%
quantise_op = XLACustomKernel("quantise")


def quantise_numba(outs, levels, **_):
    @numba.njit
    def quantise(x, out):
        for i in range(out.size):
            out[i] = math.floor(x[i] * levels) / levels

    return numba_kernel(quantise, outs[0])


quantise_op.def_numba_kernel(quantise_numba)
x = jnp.linspace(0, 1, 9)
for levels in (2, 4):
    print(f"{levels} levels:", quantise_op(x, outs=f32(9), levels=levels))
np.testing.assert_array_equal(quantise_op(x, outs=f32(9), levels=4), jnp.floor(x * 4) / 4)


# %% [markdown]
# `outs` decides the structure of the result: a struct gives an array, a list gives a list. The generator is
# called again for each combination of parameters and specs. A kernel that it has compiled before is recognised by
# its content (code, closure and options), and is not compiled twice.

# %%
assert isinstance(quantise_op(x, outs=[f32(9)], levels=4), list)

# %% [markdown]
# Parameters must be known when JAX traces. A traced one is refused, with the cure in the message:

# %%
quantise_jit = jax.jit(lambda x, levels: quantise_op(x, outs=f32(9), levels=levels))
print(message_of(bridge.ParameterError, lambda: quantise_jit(x, 4)))

quantise_jit = jax.jit(lambda x, levels: quantise_op(x, outs=f32(9), levels=levels), static_argnames="levels")
np.testing.assert_array_equal(quantise_jit(x, levels=4), jnp.floor(x * 4) / 4)

# %% [markdown]
# ## 9. A sparse matrix-vector product
#
# In compressed sparse rows (CSR), row `i` owns the entries `starts[i]` to `starts[i + 1]` of `values` and
# `columns`. The kernel visits exactly these entries, row by row, in parallel over the rows. In `jnp` one would
# gather, multiply, and add segments.


# %%
@numba.njit(parallel=True)
def csr_product(values, columns, starts, x, out):
    for i in numba.prange(out.size):
        total = 0.0
        for k in range(starts[i], starts[i + 1]):
            total += values[k] * x[columns[k]]
        out[i] = total


csr_op = XLACustomKernel("csr_product")
csr_op.def_numba_kernel(lambda outs, **_: numba_kernel(csr_product, outs[0]))

ROWS, COLUMNS = 1000, 2000
dense = random.normal(size=(ROWS, COLUMNS)) * (random.random((ROWS, COLUMNS)) < 0.02)
dense[10:20] = 0  # some rows are empty
at_row, at_column = dense.nonzero()
values = jnp.asarray(dense[at_row, at_column], jnp.float32)
columns = jnp.asarray(at_column, jnp.int32)
starts = jnp.asarray(np.searchsorted(at_row, np.arange(ROWS + 1)), jnp.int32)
x = jnp.asarray(random.normal(size=COLUMNS), jnp.float32)


@jax.jit
def sparse_product(values, columns, starts, x):
    return csr_op(values, columns, starts, x, outs=f32(starts.size - 1))


dense = jnp.asarray(dense, jnp.float32)
product = sparse_product(values, columns, starts, x)
np.testing.assert_allclose(product, np.float64(dense) @ np.float64(x), rtol=1e-5, atol=1e-5)
np.testing.assert_array_equal(product[10:20], 0)
print(f"{values.size} of {dense.size} entries: error {jnp.abs(product - dense @ x).max():.1e} beside the dense product")
print(f"sparse {median_ms(sparse_product, values, columns, starts, x):.3f} ms", end=", ")
print(f"dense {median_ms(jax.jit(jnp.dot), dense, x):.3f} ms")


# %% [markdown]
# ## 10. One operator, several backends
#
# `def_numba_kernel` registers the backend `"numba"` for the platform `"cpu"`. `def_kernel` takes any backend name
# and platform, and the function that a generator returns may be any JAX code. So an operator can have a parallel
# kernel beside the serial one, and plain `jnp` where there is no kernel yet. When JAX lowers a program for a
# platform, that platform's default backend is used.


# %%
def quantise_parallel(outs, levels, **_):
    @numba.njit(parallel=True)
    def quantise(x, out):
        for i in numba.prange(out.size):
            out[i] = math.floor(x[i] * levels) / levels

    return numba_kernel(quantise, outs[0])


def quantise_jnp(outs, levels, **_):
    return lambda x: jnp.floor(x * levels) / levels


quantise_op.def_kernel("numba_parallel", "cpu", quantise_parallel)
quantise_op.def_kernel("jnp", "cpu", quantise_jnp)
quantise_op.def_kernel("jnp", "cuda", quantise_jnp)
print(quantise_op, "with the defaults", quantise_op.defaults)

x = jnp.linspace(-2, 2, 1001)
results = {name: quantise_op(x, outs=f32(1001), levels=16, backend=name) for name in ("numba", "numba_parallel", "jnp")}
for name, result in results.items():
    np.testing.assert_array_equal(result, results["jnp"], err_msg=name)

# %% [markdown]
# The first backend of a platform is its default until you set another. That takes effect from the next call on; a
# function that JAX has traced already keeps the kernel it was traced with. A compiled program shows whether it
# calls a native kernel.


# %%
def kernel_calls(function, *args):
    return jax.jit(function).lower(*args).compile().as_text().count('custom_call_target="bridge_cpu"')


def quantise(x):
    return quantise_op(x, outs=f32(1001), levels=16)


assert quantise_op.defaults == {"cpu": "numba", "cuda": "jnp"}
assert kernel_calls(quantise, x) == 1
quantise_op.set_default("cpu", "jnp")
assert kernel_calls(lambda x: quantise(x), x) == 0  # a new function, so that JAX traces it
quantise_op.set_default("cpu", "numba")
print(message_of(bridge.BackendError, lambda: quantise_op(x, outs=f32(1001), levels=16, backend="fortran")))

# %% [markdown]
# ## 11. `jax.vmap`
#
# A kernel written for one element runs over a batch as it is: any axis, nested, with operands that are not
# batched. The batch is one call, whose loop is native code, and operands that are not batched are not copied.
# There is nothing to pass; `vmap_method="parallel"` lets all cores share a batch of which one element takes
# microseconds, and other values are for those who want `"sequential"` calls or `"broadcast_all"`.

# %%
inner_product = numba_kernel(dot, f32())
rows, weights = A[:64], B[0]

by_rows = jax.vmap(inner_product, in_axes=(0, None))
np.testing.assert_allclose(by_rows(rows, weights), rows @ weights, rtol=1e-3, atol=1e-3)
np.testing.assert_array_equal(jax.vmap(inner_product, in_axes=(1, None))(rows.T, weights), by_rows(rows, weights))

gram = jax.vmap(jax.vmap(inner_product, in_axes=(None, 0)), in_axes=(0, None))
np.testing.assert_allclose(gram(rows, rows), rows @ rows.T, rtol=1e-3, atol=1e-3)
assert kernel_calls(gram, rows, rows) == 1
print(f"{rows.shape[0]} x {rows.shape[0]} inner products in one call")


# %% [markdown]
# ## 12. Read-only inputs, and updating in place
#
# A `jax.Array` never changes, so inputs are read-only arrays: a kernel that assigns to one does not compile.


# %%
@numba.njit
def forgetful(x, out):
    for i in range(x.size):
        x[i] = 0.9 * x[i]
        out[i] = x[i]


message = message_of(bridge.KernelCompileError, lambda: numba_kernel(forgetful, f32(1000))(a))
assert "Cannot modify readonly array" in message
print(message.splitlines()[-1])

# %% [markdown]
# `input_output_aliases={0: 0}` says that input 0 and output 0 are one buffer, with the same shape and dtype. Then
# the kernel may write to the input. XLA sees to it that nobody notices: if the caller still has the array, the
# kernel gets a copy.


# %%
@numba.njit
def fade(state, new_state):
    for i in range(state.size):
        new_state[i] = 0.5 * state[i]


fade_in_place = numba_kernel(fade, f32(1000), input_output_aliases={0: 0})
state = jnp.ones(1000)
np.testing.assert_array_equal(fade_in_place(state), 0.5)
np.testing.assert_array_equal(state, 1)

# %% [markdown]
# Give the array away with `donate_argnums`, and no copy is made: the result lies where the argument was. The
# carry of a scan or a `fori_loop` needs no donation; XLA updates it in place by itself.

# %%
fade_donated = jax.jit(fade_in_place, donate_argnums=0)
address = state.unsafe_buffer_pointer()
state = fade_donated(state)
assert state.unsafe_buffer_pointer() == address
np.testing.assert_array_equal(jax.lax.fori_loop(0, 3, lambda _, s: fade_in_place(s), state), 0.5**4)


# %% [markdown]
# ## 13. Half precision
#
# Numba has no float16 and no bfloat16 on CPUs. `numba_kernel` adds them: an element becomes a float32 when the kernel
# reads it, and is rounded once when it is stored, so each result has the bits that `jnp` gives. Numbers in between are
# float32 and not rounded. An accumulator needs no conversion.


# %%
@numba.njit(parallel=True)
def scaled_by_rms(x, weight, out):
    for i in numba.prange(x.shape[0]):
        squares = np.float32(0)
        for j in range(x.shape[1]):
            squares += x[i, j] * x[i, j]
        scale = 1 / np.sqrt(squares / x.shape[1])
        for j in range(x.shape[1]):
            out[i, j] = x[i, j] * np.float32(scale) * weight[j]


rows = jnp.asarray(random.standard_normal((64, 256)), jnp.bfloat16)
weight = jnp.full(256, 2, jnp.bfloat16)
scaled = numba_kernel(scaled_by_rms, jax.ShapeDtypeStruct(rows.shape, rows.dtype))(rows, weight)
mean_squares = (scaled.astype(jnp.float32) ** 2).mean(axis=1)
np.testing.assert_allclose(mean_squares, 4, rtol=1e-2)
print(f"mean squares of {scaled.dtype} rows: from {mean_squares.min():.3f} to {mean_squares.max():.3f}")

# %% [markdown]
# Where a number in between has to be rounded, as NumPy rounds each result, say so: `x.dtype.type(value)`, or
# `np.float16(value)`. `np.dot` calls a library that knows float32 and float64 alone: pass it `x.astype(np.float32)`.


# %%
@numba.njit
def product_rounded_first(x, y, out):
    for i in range(x.size):
        out[i] = x.dtype.type(x[i] * y[i]) + x[i]


x16, y16 = jnp.asarray(random.standard_normal((2, 1000)), jnp.float16)
rounded_first = numba_kernel(product_rounded_first, jax.ShapeDtypeStruct((1000,), jnp.float16))(x16, y16)
np.testing.assert_array_equal(rounded_first, np.asarray(x16) * np.asarray(y16) + np.asarray(x16))

# %% [markdown]
# ## 14. When a kernel raises
#
# An exception stops the call and arrives as a `jax.errors.JaxRuntimeError` with its type, its message and, where
# Numba knows it, the line. As JAX runs operations asynchronously, it arrives where you wait for the result. The
# next call is unaffected.


# %%
@numba.njit
def harmonic_mean(x, out):
    total = 0.0
    for i in range(x.size):
        if x[i] <= 0:
            raise ValueError("not positive", i)
        total += 1 / x[i]
    out[()] = x.size / total


harmonic = numba_kernel(harmonic_mean, f32())
message = message_of(jax.errors.JaxRuntimeError, lambda: harmonic(jnp.array([1.0, 2.0, -3.0])))
print(message)
assert "harmonic_mean raised ValueError: ('not positive', 2)" in message
assert harmonic(jnp.array([2.0, 2.0])) == 2


# %% [markdown]
# That holds for the iterations of a parallel loop too, where Numba by itself drops the exception and returns as
# if all were well. Let a function that the loop calls raise it: Numba runs a loop serially whose own body
# contains a `raise`, and warns of it.


# %%
@numba.njit
def checked(divisor):
    if divisor == 0:
        raise ZeroDivisionError("an element is zero")
    return divisor


@numba.njit(parallel=True)
def safe_reciprocal(x, out):
    for i in numba.prange(x.size):
        out[i] = 1 / checked(x[i])


reciprocal = numba_kernel(safe_reciprocal, f32(4))
assert "an element is zero" in message_of(jax.errors.JaxRuntimeError, lambda: reciprocal(jnp.arange(4.0)))
np.testing.assert_array_equal(reciprocal(jnp.full(4, 2.0)), 0.5)

# %% [markdown]
# Indices are not checked, as always in Numba: a wrong one reads or corrupts other memory. While you develop,
# `numba.njit(boundscheck=True)` turns it into an `IndexError`.
#
# Mistakes in the *call* are found before anything runs, when JAX traces. All of these are a `bridge.BridgeError`.

# %%
print(message_of(bridge.SignatureError, lambda: numba_kernel(hypotenuse, f32(1000))(a)))
print(message_of(bridge.KernelCompileError, lambda: numba_kernel(soft_threshold, f32(1000))(a.astype(jnp.float8_e5m2))))


# %% [markdown]
# ## 15. Attaching a gradient
#
# JAX cannot look into machine code, so a kernel has no derivative until you give it one, with `jax.custom_vjp`.
# For the sparse product $y = A x$ and a gradient $g$ that arrives at $y$, the gradient of $x_j$ is the sum of
# $A_{ij} g_i$ over the entries of column $j$. The gradient of an entry $A_{ij}$ is $g_i x_j$. One kernel computes
# both in one pass. It stays serial, because rows share columns: two threads would add to one element at once.


# %%
@numba.njit
def csr_product_vjp(values, columns, starts, x, g, values_bar, x_bar):
    x_bar[:] = 0
    for i in range(g.size):
        for k in range(starts[i], starts[i + 1]):
            values_bar[k] = g[i] * x[columns[k]]
            x_bar[columns[k]] += g[i] * values[k]


gradient = jax.grad(lambda x: sparse_product(values, columns, starts, x).sum())
print(message_of(bridge.DifferentiationError, lambda: gradient(x)))


@jax.custom_vjp
def differentiable_product(values, columns, starts, x):
    return sparse_product(values, columns, starts, x)


def forward(values, columns, starts, x):
    return sparse_product(values, columns, starts, x), (values, columns, starts, x)


def backward(saved, g):
    values, _, _, x = saved
    values_bar, x_bar = numba_kernel(csr_product_vjp, [f32(*values.shape), f32(*x.shape)])(*saved, g)
    return values_bar, None, None, x_bar  # integers have no gradient


differentiable_product.defvjp(forward, backward)

# %% [markdown]
# The gradient agrees with the gradient of the dense product, whose rule JAX knows.

# %%
x = jnp.asarray(random.normal(size=COLUMNS), jnp.float32)


def loss(values, x):
    return (differentiable_product(values, columns, starts, x) ** 2).sum()


def dense_loss(dense, x):
    return (jnp.dot(dense, x, precision="highest") ** 2).sum()


values_bar, x_bar = jax.jit(jax.grad(loss, argnums=(0, 1)))(values, x)
dense_bar, dense_x_bar = jax.grad(dense_loss, argnums=(0, 1))(dense, x)
np.testing.assert_allclose(values_bar, dense_bar[at_row, at_column], rtol=1e-3, atol=1e-3)
np.testing.assert_allclose(x_bar, dense_x_bar, rtol=1e-3, atol=1e-3)
print(f"gradient of x: error {jnp.abs(x_bar - dense_x_bar).max():.1e}, largest element {jnp.abs(x_bar).max():.1f}")

# %% [markdown]
# ## 16. Exporting a program
#
# `jax.export` writes a traced program to bytes, for another process to run. A kernel is in there by name and
# content, not as machine code, so the other process must define the same kernel before it runs the program. The
# natural way is a module that both import. (`serialize` needs the package `flatbuffers`.)

# %%
MODULE = """
import jax, jax.numpy as jnp, numba
from bridge import numba_kernel

@numba.njit
def logistic_map(x, out):
    for i in range(x.size):
        out[i] = 3.5 * x[i] * (1 - x[i])

advance = numba_kernel(logistic_map, jax.ShapeDtypeStruct((4,), jnp.float32))
"""
READER = """
import sys
import jax.export, jax.numpy as jnp
import logistic
program = jax.export.deserialize(open(sys.argv[1], "rb").read())
print(program.call(jnp.linspace(0.2, 0.8, 4)).tolist())
"""

with tempfile.TemporaryDirectory() as folder:
    Path(folder, "logistic.py").write_text(MODULE)
    sys.path.insert(0, folder)
    import logistic

    program = jax.jit(lambda x: jax.lax.fori_loop(0, 10, lambda _, x: logistic.advance(x), x))
    exported = jax.export.export(program, disabled_checks=bridge.export_checks())(f32(4))
    Path(folder, "program.bin").write_bytes(exported.serialize())
    paths = os.pathsep.join(filter(None, [folder, os.environ.get("PYTHONPATH")]))
    read = [sys.executable, "-c", READER, str(Path(folder, "program.bin"))]
    environment = {**os.environ, "PYTHONPATH": paths, "JAX_PLATFORMS": "cpu"}
    other = subprocess.run(read, env=environment, capture_output=True, text=True, check=True)
    sys.path.remove(folder)

print("the other process computed", other.stdout.strip())
assert other.stdout.strip() == str(program(jnp.linspace(0.2, 0.8, 4)).tolist())

# %% [markdown]
# JAX refuses to export custom calls that it does not know to be stable; `export_checks()` vouches for these. A
# kernel of other content is never run in its place: if the other process lacks the kernel, or has edited it, the
# call fails and says so. The content includes the bytecode, so both sides need the same Python version. The same
# rule makes JAX's persistent compilation cache safe.
#
# ## 17. Giving memory back
#
# A wrapper that nobody holds is freed with its programs, but for the latest 32: a function that wraps its kernels
# anew at each call finds them compiled. `bridge.release()` drops these, too, and the kernels that neither a wrapper
# nor a program of JAX uses. `jax.clear_caches()` makes JAX let go of its programs first. It returns the number of
# kernels dropped.


# %%
def call_a_kernel_of_its_own(offset):
    @numba.njit
    def shift(x, out):
        for i in range(x.size):
            out[i] = x[i] + offset

    return numba_kernel(shift, f32(4))(jnp.zeros(4))


for offset in range(3):
    np.testing.assert_array_equal(call_a_kernel_of_its_own(offset), offset)
jax.clear_caches()
released = bridge.release()
print(f"{released} kernels released")
assert released >= 3
np.testing.assert_allclose(shrink(a), shrunk)  # what you hold goes on working

# %% [markdown]
# The machine code itself stays: Numba does not unload any.
#
# ## What to remember
#
# - Inputs, then outputs; assign every element; return nothing. Inputs are read-only unless aliased.
# - `outs` has the structure of the result: one struct, one array.
# - `parallel=True` with `prange` for large arrays; set `OMP_WAIT_POLICY=passive` beside other operations.
# - `numba_kernel` wraps one kernel; `XLACustomKernel` names an operator with parameters and backends.
# - `jit`, loops and `vmap` work as they are; a gradient needs `jax.custom_vjp`.
#
# To check and time a kernel of yours against its `jnp` equivalent, write it down as an operator:
# `suites/ops/add/` is the shortest example.
