# mypy: ignore-errors
# %% [markdown]
# # Numba-CUDA kernels as JAX operations
#
# You write what one GPU thread does, Numba compiles it, and `bridge` lets XLA launch it on its own stream. No
# Python runs during the call, no array is copied, and XLA may record the launches into CUDA graphs.
#
# Every claim below is followed by code that shows it and, mostly, by an `assert` that would fail if it were
# wrong. `numba_cpu.py` beside this file is about kernels for the CPU.
#
# 1. When a CUDA kernel is worth writing
# 2. Setting up, with a GPU or without
# 3. Writing kernels: element by element, and with shared memory
# 4. Calling them from JAX: `numba_cuda_kernel`
# 5. Under `jax.jit`, in loops, and in graphs
# 6. Grid and block, or `launch_dims`
# 7. Several kernels and temporaries: `numba_cuda_callable`
# 8. Recorded once, replayed natively: `replay=True`
# 9. One operator for CPU and GPU: `XLACustomKernel`
# 10. Two kernels for spiking neurons
# 11. `jax.vmap`
# 12. Read-only inputs, and updating in place
# 13. Making it fast
# 14. Reusing wrappers

# %% [markdown]
# ## 1. When a CUDA kernel is worth writing
#
# XLA fuses array expressions into kernels of its own, and those are hard to beat. A kernel of yours pays off
# where the algorithm is not an array expression:
#
# | you need | in `jnp` | as a CUDA kernel |
# |---|---|---|
# | threads that work together on a tile | XLA decides | shared memory, `cuda.syncthreads` |
# | scattered updates, counters, queues | scatter operations | `cuda.atomic` |
# | different work per element | both sides computed, then selected | an `if`, a loop with its own length |
# | several kernels with buffers between them | XLA decides | a Python function that launches them |
#
# Compared with CUDA C++ you stay in Python and need no compiler; compared with Warp you see the threads, blocks
# and barriers of CUDA as they are.

# %% [markdown]
# ## 2. Setting up, with a GPU or without
#
# The extras `cuda13` and `cuda12` install JAX for CUDA and numba-cuda.
#
# Without a GPU this page runs all the same, in Numba's simulator: plain Python, one Python thread for each CUDA
# thread. That shows what kernels compute, but neither how fast, nor anything about the launch. What needs a GPU
# is passed over then, and says so. Numba decides for the simulator when it is imported, hence the order here.

# %%
import os

import jax

os.environ.setdefault("NUMBA_ENABLE_CUDASIM", str(int(jax.default_backend() != "gpu")))
os.environ.setdefault("NUMBA_CUDA_LOW_OCCUPANCY_WARNINGS", "0")  # the arrays of this page are small

import math
import time
from typing import Any, NamedTuple

import jax.numpy as jnp
import numba
import numpy as np
from numba import cuda

import bridge
from bridge import XLACustomKernel, numba_cuda_callable, numba_cuda_kernel, numba_kernel
from bridge.cuda.launch_shape import launch_shape

ON_GPU = not numba.config.ENABLE_CUDASIM
random = np.random.default_rng(7)
print(f"bridge {bridge.__version__}, jax {jax.__version__}, numba {numba.__version__}")
print(f"running on {jax.devices()[0].device_kind}" if ON_GPU else "no GPU: running in Numba's simulator")


# %% [markdown]
# Helpers for this page: the specification of a float32 result, the message of an error that is expected, and
# whether to go on with something that needs a GPU.


# %%
def f32(*shape):
    return jax.ShapeDtypeStruct(shape, jnp.float32)


def message_of(error, call):
    try:
        jax.block_until_ready(call())
    except error as caught:
        return str(caught)
    raise AssertionError(f"expected {error.__name__}")


passed_over = []


def gpu_for(what):
    if not ON_GPU:
        passed_over.append(what)
        print(f"(passed over, needs a GPU: {what})")
    return ON_GPU


# %% [markdown]
# With a GPU, skip this cell. Without one, these two stand in for the functions of the bridge: JAX calls back into
# Python, which runs the kernels in the simulator, on copies. Never do that where speed matters. Each simulated thread
# is one of Python's, so blocks and arrays of this page are small there.

# %%
launches = 0


def simulated(launch, outs):
    specs, structure = jax.tree.flatten(outs)

    def run(*inputs):
        global launches
        launches += 1
        arrays = [cuda.to_device(np.array(array)) for array in inputs]
        results = [cuda.to_device(np.empty(spec.shape, spec.dtype)) for spec in specs]
        launch(*arrays, *results)
        return [result.copy_to_host() for result in results]

    def call(*args):
        return jax.tree.unflatten(structure, jax.pure_callback(run, specs, *args, vmap_method="sequential"))

    return call


def simulated_kernel(kernel, outs, *, input_output_aliases=None, **launch):
    few = {"threads_per_block": 32} if "launch_dims" in launch else {}
    shape = launch_shape(kernel.fn.__name__, **few | launch)
    configured = kernel[shape.grid, shape.block, 0, shape.shared_bytes]
    return simulated(lambda *arrays: configured(*arrays), outs)


def simulated_callable(function, outs, *, replay=False):
    return simulated(lambda *arrays: function(*arrays, 0), outs)


if not ON_GPU:
    numba_cuda_kernel, numba_cuda_callable = simulated_kernel, simulated_callable

# %% [markdown]
# ## 3. Writing kernels
#
# A kernel is a function under `cuda.jit`. Its parameters are the inputs, then the outputs, all of them
# C-contiguous device arrays over XLA's buffers. It returns nothing. Each thread asks which one it is, and does
# its part; all threads together assign *every* element of *every* output, because an output starts with whatever
# its memory held before.
#
# ### Element by element
#
# `cuda.grid(1)` is the index of the thread in the whole launch. Launches come in whole blocks, so a few threads
# too many run: each has to check its index. A kernel may import inside its body, which Numba by itself refuses.


# %%
@cuda.jit
def ramp(x, out):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = min(max(x[i], 0.0), 1.0)


@cuda.jit
def swish(x, out):
    from math import exp

    i = cuda.grid(1)
    if i < out.size:
        out[i] = x[i] / (1 + exp(-x[i]))


# %% [markdown]
# ### With shared memory
#
# The threads of one block share a small, fast memory, and can wait for each other with `cuda.syncthreads()`,
# which all threads of the block must reach. Here a block finds its largest magnitude: half of the threads compare
# two numbers each, then half of those, and so on. The size of the array is a constant, a Python global.

# %%
THREADS = 256 if ON_GPU else 32


@cuda.jit
def block_peaks(x, peaks):
    """``peaks[b]`` is the largest magnitude among the elements of block b."""
    best = cuda.shared.array(THREADS, numba.float32)
    t, i = cuda.threadIdx.x, cuda.grid(1)
    best[t] = abs(x[i]) if i < x.size else 0.0
    cuda.syncthreads()
    width = THREADS // 2
    while width > 0:
        if t < width:
            best[t] = max(best[t], best[t + width])
        cuda.syncthreads()
        width //= 2
    if t == 0:
        peaks[cuda.blockIdx.x] = best[0]


# %% [markdown]
# ## 4. Calling them from JAX: `numba_cuda_kernel`
#
# ```python
# numba_cuda_kernel(kernel, outs, *, grid=None, block=None, launch_dims=None, threads_per_block=256, shared_mem=0,
#                   vmap_method=None, input_output_aliases=None)
# ```
#
# `outs` says what the results are: one `jax.ShapeDtypeStruct`, or a list or any other pytree of them. The launch
# is given by `grid` (blocks) and `block` (threads of each), or by `launch_dims`, the number of threads wanted.

# %%
N = 1000 if ON_GPU else 150
BLOCKS = -(-N // THREADS)
x = jnp.asarray(random.normal(size=N), jnp.float32)
x64 = np.asarray(x, np.float64)

ramped = numba_cuda_kernel(ramp, f32(N), grid=BLOCKS, block=THREADS)(x)
assert isinstance(ramped, jax.Array)
np.testing.assert_array_equal(ramped, np.clip(x, 0, 1))

swished = numba_cuda_kernel(swish, f32(N), launch_dims=N, threads_per_block=128)(x)
np.testing.assert_allclose(swished, x64 / (1 + np.exp(-x64)), rtol=1e-5)

peaks = numba_cuda_kernel(block_peaks, f32(BLOCKS), grid=BLOCKS, block=THREADS)(x)
np.testing.assert_array_equal(peaks, [np.abs(x[start : start + THREADS]).max() for start in range(0, N, THREADS)])
print(f"the largest magnitudes of {BLOCKS} blocks: {peaks}")

# %% [markdown]
# A kernel takes the dtypes of numba-cuda: booleans, 8- to 64-bit integers, float32 and float64, complex64 and
# complex128, and also float16 and bfloat16.
#
# ### Several outputs
#
# The outputs of the kernel are the leaves of `outs` in the order of `jax.tree.leaves`: as you see them in a list
# or named tuple, by sorted key in a dict.


# %%
@cuda.jit
def to_polar(x, y, radius, angle):
    i = cuda.grid(1)
    if i < x.size:
        radius[i] = math.hypot(x[i], y[i])
        angle[i] = math.atan2(y[i], x[i])


class Polar(NamedTuple):
    radius: Any
    angle: Any


y = jnp.asarray(random.normal(size=N), jnp.float32)
polar = numba_cuda_kernel(to_polar, Polar(f32(N), f32(N)), launch_dims=N)(x, y)
np.testing.assert_allclose(polar.radius, np.hypot(x, y), rtol=1e-5)
np.testing.assert_allclose(polar.radius * np.cos(polar.angle), x, atol=1e-5)


# %% [markdown]
# ## 5. Under `jax.jit`, in loops, and in graphs
#
# A kernel mixes with other operations, and XLA's stream keeps them in order. It is compiled and loaded when JAX
# traces the call. A loop stays on the device: no Python runs between its steps.


# %%
@cuda.jit
def add(x, y, out):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = x[i] + y[i]


add_fn = numba_cuda_kernel(add, f32(N), launch_dims=N)


@jax.jit
def mean_of_sum(x, y):
    return add_fn(2 * x, y).mean()


np.testing.assert_allclose(mean_of_sum(x, y), (2 * x + y).mean(), atol=1e-5)
steps = jax.lax.fori_loop(0, 5, lambda _, total: add_fn(total, jnp.ones(N)), jnp.zeros(N))
np.testing.assert_array_equal(steps, 5)


# %% [markdown]
# Where a program makes several launches in a row, XLA may record them, yours among its own, into a CUDA graph,
# which the driver launches as a whole. There is nothing to do for it.


# %%
CHAIN = 50 if ON_GPU else 3


@jax.jit
def chain(x, y):
    for _ in range(CHAIN):
        x = add_fn(x, y)
    return x


def median_us(function, *args, samples=30):
    jax.block_until_ready(function(*args))  # the first call compiles
    times = []
    for _ in range(samples):
        start = time.perf_counter()
        jax.block_until_ready(function(*args))
        times.append(1e6 * (time.perf_counter() - start))
    return np.median(times)


for start in (0, 7):  # a graph that was recorded with other buffers is updated
    np.testing.assert_array_equal(chain(jnp.full(N, float(start)), jnp.ones(N)), start + CHAIN)
if gpu_for("how long a chain of launches takes"):
    chained = median_us(chain, x, y)
    print(f"a chain of {CHAIN} launches: {chained:.0f} us, {chained / CHAIN:.2f} us each")

# %% [markdown]
# ## 6. Grid and block, or `launch_dims`
#
# | you pass | what is launched |
# |---|---|
# | `grid=8, block=128` | 8 blocks of 128 threads |
# | `launch_dims=1000` | 4 blocks of 256 threads, 24 threads too many |
# | `launch_dims=1000, threads_per_block=128` | 8 blocks of 128 threads |
# | `launch_dims=(65, 33)` | 5 x 3 blocks of 16 x 16 threads |
# | `launch_dims=(65, 33, 9)` | 9 x 5 x 3 blocks of 8 x 8 x 4 threads, rounded up in each dimension |

# %%
assert launch_shape("demo", launch_dims=1000) == launch_shape("demo", grid=4, block=256)
assert launch_shape("demo", launch_dims=1000, threads_per_block=128) == launch_shape("demo", grid=8, block=128)
assert launch_shape("demo", launch_dims=(65, 33)) == launch_shape("demo", grid=(5, 3), block=(16, 16))
assert launch_shape("demo", launch_dims=(65, 33, 9)) == launch_shape("demo", grid=(9, 5, 3), block=(8, 8, 4))


# %% [markdown]
# In two dimensions `cuda.grid(2)` is a pair. Its first number, x, runs fastest among the threads, so let it be
# the column: then neighbouring threads touch neighbouring memory. Section 13 measures the difference.


# %%
@cuda.jit
def outer_sum(rows, columns, out):
    column, row = cuda.grid(2)
    if row < out.shape[0] and column < out.shape[1]:
        out[row, column] = rows[row] + columns[column]


ROWS, COLUMNS = 33, 65
table = numba_cuda_kernel(outer_sum, f32(ROWS, COLUMNS), launch_dims=(COLUMNS, ROWS))(x[:ROWS], y[:COLUMNS])
np.testing.assert_array_equal(table, x[:ROWS, None] + y[None, :COLUMNS])


# %% [markdown]
# Shared memory whose size is known only at the launch is *dynamic*: an array of size 0 in the kernel, and its
# bytes in `shared_mem`. Here each block loads its elements once, with one more on either side, and averages three
# neighbours. More than 48 KiB needs nothing further, as far as the device has it.


# %%
@cuda.jit
def smooth(x, out):
    tile = cuda.shared.array(0, numba.float32)
    t, i = cuda.threadIdx.x, cuda.grid(1)
    last = x.size - 1
    tile[t + 1] = x[min(i, last)]
    if t == 0:
        tile[0] = x[max(i - 1, 0)]
    if t == cuda.blockDim.x - 1:
        tile[t + 2] = x[min(i + 1, last)]
    cuda.syncthreads()
    if i <= last:
        out[i] = (tile[t] + tile[t + 1] + tile[t + 2]) / 3


padded = np.pad(x64, 1, mode="edge")
for threads in (64, 128):
    smoothed = numba_cuda_kernel(
        smooth, f32(N), launch_dims=N, threads_per_block=threads, shared_mem=4 * (threads + 2)
    )(x)
    np.testing.assert_allclose(smoothed, (padded[:-2] + padded[1:-1] + padded[2:]) / 3, atol=1e-6)

# %% [markdown]
# A launch that makes no sense is a `bridge.LaunchError`, which is also a `ValueError`: some when you wrap the
# kernel, and those that depend on the device or on shapes when JAX traces the call. If CUDA refuses a launch later,
# you get a `jax.errors.JaxRuntimeError` with the names of the kernel and of CUDA's error.

# %%
print(message_of(ValueError, lambda: numba_cuda_kernel(ramp, f32(N))))
print(message_of(bridge.LaunchError, lambda: numba_cuda_kernel(ramp, f32(N), grid=4)))
if gpu_for("launches over the limits of the device"):
    message = message_of(bridge.LaunchError, lambda: numba_cuda_kernel(ramp, f32(N), grid=1, block=2048)(x))
    print(message)
    assert "2048 threads" in message
    print(message_of(bridge.LaunchError, lambda: numba_cuda_kernel(ramp, f32(N), launch_dims=0)(x)))
    greedy = numba_cuda_kernel(smooth, f32(N), launch_dims=N, shared_mem=1_000_000)
    print(message_of(bridge.LaunchError, lambda: greedy(x)))


# %% [markdown]
# ## 7. Several kernels and temporaries: `numba_cuda_callable`
#
# The blocks of a launch cannot wait for each other. To divide a vector by its largest magnitude, one kernel has
# to end before the next begins, and the second needs what the first has found. `numba_cuda_callable` wraps a
# Python function that launches both. It receives the inputs, the outputs and XLA's stream as its last argument;
# it launches on that stream, and makes temporaries with `cuda.device_array`.


# %%
@cuda.jit
def divide_by_largest(x, peaks, out):
    i = cuda.grid(1)
    if i < out.size:
        peak = peaks[0]
        for b in range(1, peaks.size):
            peak = max(peak, peaks[b])
        out[i] = x[i] / peak


def normalise(x, out, stream):
    blocks = -(-x.size // THREADS)
    peaks = cuda.device_array(blocks, dtype=x.dtype)
    block_peaks[blocks, THREADS, stream](x, peaks)
    divide_by_largest[blocks, THREADS, stream](x, peaks, out)


normalised = numba_cuda_callable(normalise, f32(N))(x)
np.testing.assert_allclose(normalised, x64 / np.abs(x64).max(), rtol=1e-6)
assert jnp.abs(normalised).max() == 1

# %% [markdown]
# The temporary goes when the function returns, as far as Python is concerned, while the kernels may not even have
# begun. Its memory is kept until the work that was queued before is done; never synchronise for its sake.
#
# Python runs at *each* call of this function, under the GIL, while the device may wait for it. An exception in it
# reaches the caller as a `jax.errors.JaxRuntimeError`. In exchange the function may do what it likes: look at
# data, and decide by it.


# %%
@cuda.jit
def divide(x, number, out):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = x[i] / number


def normalise_by_python(x, out, stream):
    blocks = -(-x.size // THREADS)
    peaks = cuda.device_array(blocks, dtype=x.dtype)
    block_peaks[blocks, THREADS, stream](x, peaks)
    stream.synchronize()
    peak = float(peaks.copy_to_host().max())
    if peak == 0:
        raise ValueError("nothing but zeros")
    divide[blocks, THREADS, stream](x, peak, out)


if gpu_for("a callable that waits for the device and reads from it"):
    by_python = numba_cuda_callable(normalise_by_python, f32(N))
    np.testing.assert_allclose(by_python(x), normalised, rtol=1e-6)
    message = message_of(jax.errors.JaxRuntimeError, lambda: by_python(jnp.zeros(N)))
    print(message.splitlines()[0])
    assert "normalise_by_python raised ValueError: nothing but zeros" in message
    np.testing.assert_allclose(by_python(x), normalised, rtol=1e-6)

# %% [markdown]
# ## 8. Recorded once, replayed natively: `replay=True`
#
# Most such functions do the same at each call: their launches depend on the shapes of the arrays, not on their
# contents. With `replay=True` the function runs once for each set of shapes, when JAX traces the call. Its launches
# are noted and not made. From then on native code makes the launches, with the addresses of the call;
# the temporaries become buffers of XLA's. So Python and the GIL are out of the call, and XLA may record it into a
# graph.

# %%
normalise_replayed = numba_cuda_callable(normalise, f32(N), replay=True)
for scale in (1, 3):
    np.testing.assert_allclose(normalise_replayed(scale * x), normalised, rtol=1e-6)
np.testing.assert_allclose(jax.jit(lambda x: add_fn(normalise_replayed(x), x))(x), normalised + x, rtol=1e-5)
if gpu_for("the cost of a callable, replayed or not"):
    each_call = numba_cuda_callable(normalise, f32(N))
    print(f"two kernels, Python at each call: {median_us(each_call, x):.0f} us")
    print(f"two kernels, replayed:            {median_us(normalise_replayed, x):.0f} us")
    print(f"one kernel:                       {median_us(add_fn, x, y):.0f} us")

# %% [markdown]
# A recorded function must not wait, copy to the host or between arrays, use another stream than the given one, or
# launch nothing. Tracing such a function raises a `bridge.RecordingError`. If the function raises an exception, the
# message contains it. The recording *cannot* notice numbers that Python computes, such as a random seed or a counter:
# they become constants. Pass a value that changes from call to call as an array.

# %%
if gpu_for("what a recording refuses"):
    by_python = numba_cuda_callable(normalise_by_python, f32(N), replay=True)
    message = message_of(bridge.RecordingError, lambda: by_python(x))
    print(message)
    assert "replay=False" in message
    np.testing.assert_allclose(normalise_replayed(x), normalised, rtol=1e-6)  # no harm done

# %% [markdown]
# ## 9. One operator for CPU and GPU: `XLACustomKernel`
#
# An operator has a name, takes static parameters, and has a kernel for each platform. What you register is a
# *generator*: it receives the parameters and `outs`, a tuple of specs, and returns the function that handles the
# arrays. Values that the kernel closes over become constants of its machine code. When JAX lowers a program for a
# platform, that platform's default backend is used: `"numba"` on the CPU, `"numba_cuda"` on NVIDIA GPUs.

# %%
leaky_op = XLACustomKernel("leaky")


def leaky_cpu(outs, slope):
    @numba.njit
    def leaky(x, out):
        for i in range(out.size):
            out[i] = x[i] if x[i] > 0 else slope * x[i]

    return numba_kernel(leaky, outs[0])


def leaky_cuda(outs, slope):
    @cuda.jit
    def leaky(x, out):
        i = cuda.grid(1)
        if i < out.size:
            out[i] = x[i] if x[i] > 0 else slope * x[i]

    return numba_cuda_kernel(leaky, outs[0], launch_dims=outs[0].size)


leaky_op.def_numba_kernel(leaky_cpu)
leaky_op.def_numba_cuda_kernel(leaky_cuda)
if not ON_GPU:
    leaky_op.def_kernel("numba_cuda", "cpu", leaky_cuda)  # the simulator runs on the CPU
assert leaky_op.defaults == {"cpu": "numba", "cuda": "numba_cuda"}

expected = np.where(x > 0, x64, 0.1 * x64)
on_cpu = leaky_op(jax.device_put(x, jax.devices("cpu")[0]), outs=f32(N), slope=0.1)
np.testing.assert_allclose(on_cpu, expected, rtol=1e-6)
np.testing.assert_allclose(leaky_op(x, outs=f32(N), slope=0.1, backend="numba_cuda"), expected, rtol=1e-6)
np.testing.assert_allclose(leaky_op(x, outs=[f32(N)], slope=0.1)[0], expected, rtol=1e-6)


# %% [markdown]
# A compiled program shows which kernel it calls, by the name of the native handler.


# %%
def kernel_calls(function, *args):
    return jax.jit(function).lower(*args).compile().as_text().count('custom_call_target="bridge_cuda"')


if gpu_for("the default of the platform in a compiled program"):
    assert kernel_calls(lambda x: leaky_op(x, outs=f32(N), slope=0.1), x) == 1

# %% [markdown]
# Parameters are compiled into the kernel, so they must be known when JAX traces. An argument of a function under
# `jax.jit` is not, unless it is static:

# %%
leaky_jit = jax.jit(lambda x, slope: leaky_op(x, outs=f32(N), slope=slope))
print(message_of(bridge.ParameterError, lambda: leaky_jit(x, slope=0.1)))

leaky_jit = jax.jit(lambda x, slope: leaky_op(x, outs=f32(N), slope=slope), static_argnames="slope")
np.testing.assert_allclose(leaky_jit(x, slope=0.1), expected, rtol=1e-6)

# %% [markdown]
# Each value of a static parameter compiles another kernel. A parameter with many values should be an array, like the
# threshold in the next section.
#
# ## 10. Two kernels for spiking neurons
#
# Neurons whose membrane potential has reached the threshold fire, and are set back to rest. One kernel finds who
# fires, the next resets; threshold and rest are arrays of one element, so that they may be traced, differ between
# calls, or be mapped by `jax.vmap`.


# %%
@cuda.jit
def find_spikes(potential, threshold, fired):
    i = cuda.grid(1)
    if i < fired.size:
        fired[i] = 1 if potential[i] >= threshold[0] else 0


@cuda.jit
def reset_fired(potential, fired, rest, after):
    i = cuda.grid(1)
    if i < after.size:
        after[i] = rest[0] if fired[i] else potential[i]


def fire_and_reset(potential, threshold, rest, fired, after, stream):
    blocks = -(-potential.size // THREADS)
    find_spikes[blocks, THREADS, stream](potential, threshold, fired)
    reset_fired[blocks, THREADS, stream](potential, fired, rest, after)


class Step(NamedTuple):
    fired: Any
    potential: Any


NEURONS = 100_000 if ON_GPU else 64
step_outs = Step(jax.ShapeDtypeStruct((NEURONS,), jnp.int32), f32(NEURONS))
fire = numba_cuda_callable(fire_and_reset, step_outs, replay=True)


def fire_in_jnp(potential, threshold, rest):
    fired = potential >= threshold
    return Step(fired.astype(jnp.int32), jnp.where(fired, rest, potential))


potential = jnp.asarray(random.uniform(-75, -50, NEURONS), jnp.float32)
threshold, rest = jnp.full(1, -55.0), jnp.full(1, -70.0)
after, expected = fire(potential, threshold, rest), fire_in_jnp(potential, threshold, rest)
np.testing.assert_array_equal(after.fired, expected.fired)
np.testing.assert_array_equal(after.potential, expected.potential)
print(f"{int(after.fired.sum())} of {NEURONS} neurons fire")

# %% [markdown]
# `lax.scan` runs it over time. The input is a multiple of 1/8 mV and so are all potentials, so that no rounding
# decides who fires and the two programs agree exactly.

# %%
drive = jnp.asarray(random.integers(0, 32, NEURONS) / 8, jnp.float32)
start = jnp.asarray(random.integers(-600, -440, NEURONS) / 8, jnp.float32)


def simulate(step):
    def advance(potential, _):
        after = step(potential + drive, threshold, rest)
        return after.potential, after.fired.sum()

    return jax.jit(lambda start: jax.lax.scan(advance, start, length=10))


(end, spikes), (end_in_jnp, spikes_in_jnp) = simulate(fire)(start), simulate(fire_in_jnp)(start)
np.testing.assert_array_equal(end, end_in_jnp)
np.testing.assert_array_equal(spikes, spikes_in_jnp)
print(f"{int(spikes.sum())} spikes in 10 steps")

# %% [markdown]
# It is worth asking whether two kernels are needed at all. Here each thread only needs its own neuron, so one
# kernel can do both, and XLA's fusion does the same. Keep the second launch for what has to wait for all blocks.


# %%
@cuda.jit
def fire_and_reset_at_once(potential, threshold, rest, fired, after):
    i = cuda.grid(1)
    if i < after.size:
        v = potential[i]
        spikes = v >= threshold[0]
        fired[i] = 1 if spikes else 0
        after[i] = rest[0] if spikes else v


at_once = numba_cuda_kernel(fire_and_reset_at_once, step_outs, launch_dims=NEURONS)
np.testing.assert_array_equal(at_once(potential, threshold, rest).potential, expected.potential)
if gpu_for("one kernel or two, in time"):
    for name, step in (("two kernels, replayed", fire), ("one kernel", at_once), ("jnp", jax.jit(fire_in_jnp))):
        print(f"{name:22} {median_us(step, potential, threshold, rest):.0f} us")

# %% [markdown]
# ## 11. `jax.vmap`
#
# A kernel written for one element runs over a batch as it is: any axis, nested, with operands that are not
# batched, which are not copied. The batch is one call whose loop of launches is native code. Callables work the
# same way: those that run Python do so for each element, in one call.

# %%
WIDTH = 50
add_rows = numba_cuda_kernel(add, f32(WIDTH), launch_dims=WIDTH, threads_per_block=64)
A, B = x[: 3 * WIDTH].reshape(WIDTH, 3), y[: 2 * WIDTH].reshape(2, WIDTH)

columns = jax.vmap(add_rows, in_axes=(1, None))
np.testing.assert_array_equal(columns(A, B[0]), A.T + B[0])
pairs = jax.vmap(columns, in_axes=(None, 0))
np.testing.assert_array_equal(pairs(A, B), A.T[None] + B[:, None])
if gpu_for("that the batch is one call"):
    assert kernel_calls(pairs, A, B) == 1

normalise_rows = jax.vmap(numba_cuda_callable(normalise, f32(WIDTH), replay=True))
np.testing.assert_allclose(normalise_rows(B), B / jnp.abs(B).max(axis=1, keepdims=True), rtol=1e-6)

# %% [markdown]
# A launch for each element suits a small batch of large arrays. For a large batch of small ones, give the kernel
# the batch as a dimension of its own: one launch then fills the GPU.

# %%
if gpu_for("a batch as launches, or as a dimension"):
    big = jnp.ones((1000, WIDTH))
    by_launches = jax.jit(jax.vmap(add_rows))
    by_dimension = numba_cuda_kernel(add, f32(1000 * WIDTH), launch_dims=1000 * WIDTH)
    np.testing.assert_array_equal(by_launches(big, big), by_dimension(big.ravel(), big.ravel()).reshape(big.shape))
    print(f"1000 rows: {median_us(by_launches, big, big):.0f} us as launches, ", end="")
    print(f"{median_us(by_dimension, big.ravel(), big.ravel()):.0f} us as one")


# %% [markdown]
# ## 12. Read-only inputs, and updating in place
#
# A `jax.Array` never changes, so the inputs of a kernel are read-only arrays: a kernel that assigns to one does
# not compile. In a callable nothing checks that, so leave its inputs alone.


# %%
@cuda.jit
def forgetful(x, out):
    i = cuda.grid(1)
    if i < out.size:
        x[i] = 0.9 * x[i]
        out[i] = x[i]


if gpu_for("that inputs are read-only"):
    message = message_of(bridge.KernelCompileError, lambda: numba_cuda_kernel(forgetful, f32(N), launch_dims=N)(x))
    assert "Inputs are read-only" in message
    print(message.splitlines()[-1])

# %% [markdown]
# `input_output_aliases={0: 0}` says that input 0 and output 0 are one buffer, with the same shape and dtype. Then
# the kernel may write to the input. XLA sees to it that nobody notices: if the caller still has the array, the
# kernel gets a copy.


# %%
@cuda.jit
def fade(state, new_state):
    i = cuda.grid(1)
    if i < state.size:
        new_state[i] = 0.5 * state[i]


fade_in_place = numba_cuda_kernel(fade, f32(N), launch_dims=N, input_output_aliases={0: 0})
state = jnp.ones(N)
np.testing.assert_array_equal(fade_in_place(state), 0.5)
np.testing.assert_array_equal(state, 1)

# %% [markdown]
# Give the array away with `donate_argnums`, and no copy is made: the result lies where the argument was. The
# carry of a scan or a `fori_loop` needs no donation; XLA updates it in place by itself.

# %%
np.testing.assert_array_equal(jax.lax.fori_loop(0, 3, lambda _, s: fade_in_place(s), state), 0.5**3)
if gpu_for("in place, by donation"):
    fade_donated = jax.jit(lambda state: fade_in_place(state), donate_argnums=0)
    state = state + 0
    address = state.unsafe_buffer_pointer()
    state = fade_donated(state)
    assert state.unsafe_buffer_pointer() == address
    np.testing.assert_array_equal(state, 0.5)

# %% [markdown]
# ## 13. Making it fast
#
# **Let neighbours read neighbours.** The 32 threads of a warp fetch memory together. If they ask for 32 adjacent
# numbers, that is a few transactions; if each asks for another row, it is 32. This matters more than anything else
# here. Compare the two orders of indices:


# %%
@cuda.jit
def double_by_columns(x, out):
    column, row = cuda.grid(2)
    if row < out.shape[0] and column < out.shape[1]:
        out[row, column] = 2 * x[row, column]


@cuda.jit
def double_by_rows(x, out):
    row, column = cuda.grid(2)
    if row < out.shape[0] and column < out.shape[1]:
        out[row, column] = 2 * x[row, column]


SIDE = 8192 if ON_GPU else 20
image = jnp.ones((SIDE, SIDE), jnp.float32)
for kernel in (double_by_columns, double_by_rows):
    doubled = numba_cuda_kernel(kernel, f32(SIDE, SIDE), launch_dims=(SIDE, SIDE))
    assert (doubled(image) == 2).all()
    if gpu_for(f"the time of {kernel.__name__}"):
        us = median_us(doubled, image, samples=10)
        print(f"{kernel.__name__:18} {us:7.0f} us, {2 * image.nbytes / us / 1e3:5.0f} GB/s")


# %% [markdown]
# **Blocks of a few hundred threads.** Sizes are multiples of 32, the size of a warp; 128 to 512 is the usual range.
# Smaller blocks leave a multiprocessor short of warps, larger ones may not fit it twice. `launch_dims` with the
# default of 256 does for most kernels; `grid` and `block` are for those that share memory by block.
#
# **Let a warp agree.** Where the threads of a warp take different branches, each branch runs in turn. A bounds
# check costs nothing, because only the last warp disagrees. Per-element branches are fine if they are short, or if
# neighbours mostly agree; otherwise sort or group the data first.
#
# **Shared memory for what is read more than once.** Load it once, `cuda.syncthreads()`, then reuse. For what is
# read once it gains nothing.
#
# **Mind the literals.** A Python float in a kernel is a float64, and so is what it is combined with. In a kernel
# that computes a lot, write `np.float32(0.9)`: many GPUs have little float64 throughput. The result is stored in the
# dtype of the output in any case.


# %%
@cuda.jit
def polynomial(x, out):
    i = cuda.grid(1)
    if i < out.size:
        v, total = x[i], np.float32(0)
        for k in range(100):
            total = total * v + np.float32(k % 3)
        out[i] = total


@cuda.jit
def polynomial_f64(x, out):
    i = cuda.grid(1)
    if i < out.size:
        v, total = x[i], 0.0
        for k in range(100):
            total = total * v + k % 3
        out[i] = total


POINTS = 1 << 22 if ON_GPU else 100
points = jnp.asarray(random.uniform(-0.5, 0.5, POINTS), jnp.float32)
results = {}
for kernel in (polynomial, polynomial_f64):
    evaluate = numba_cuda_kernel(kernel, f32(POINTS), launch_dims=POINTS)
    results[kernel] = evaluate(points)
    if gpu_for(f"the time of {kernel.__name__}"):
        print(f"{kernel.__name__:14} {median_us(evaluate, points, samples=10):.0f} us")
np.testing.assert_allclose(results[polynomial], results[polynomial_f64], atol=1e-5)

# %% [markdown]
# **Stay on the device.** Keep data in JAX arrays, loops in `lax.scan` or `lax.fori_loop`, and use `replay=True`
# wherever the launches depend on shapes alone.
#
# ## 14. Reusing wrappers
#
# Wrapping the same kernel again with the same `outs` and launch returns the function that already exists, so it
# does not matter where in your code you wrap. A kernel that is *defined* again, as in `leaky_cuda` at each call, is
# another kernel, and Numba compiles it again. A generator of an operator does not run at each call: its result is
# kept for each set of parameters.

# %%
if gpu_for("that wrappers are reused"):
    assert numba_cuda_kernel(add, f32(N), launch_dims=N) is add_fn
    assert numba_cuda_callable(normalise, f32(N), replay=True) is normalise_replayed

# %% [markdown]
# A wrapper belongs to the shapes in `outs`. For code that meets many shapes, write a function that wraps for the
# shapes it is given; under `jax.jit` it runs only when JAX traces.


# %%
@cuda.jit
def decay(x, rate, out):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = x[i] * math.exp(-rate[0])


@jax.jit
def decayed(x, rate):
    return numba_cuda_kernel(decay, f32(*x.shape), launch_dims=x.size)(x, rate)


for size in (10, 100):
    np.testing.assert_allclose(decayed(jnp.ones(size), jnp.full(1, 0.1)), math.exp(-0.1), rtol=1e-6)

# %% [markdown]
# ## What to remember
#
# - Inputs, then outputs; check the index; assign every element; return nothing.
# - `launch_dims` says how many threads, `grid` and `block` say it exactly; x is the fastest dimension.
# - `numba_cuda_kernel` for one kernel; `numba_cuda_callable` for several, with `replay=True` if shapes decide.
# - `XLACustomKernel` puts kernels for CPU and GPU under one name; its parameters are static.
# - `jit`, loops, `vmap`, several GPUs (`jax.shard_map`) and `jax.export` work as they are. A gradient needs
#   `jax.custom_vjp`, as in `numba_cpu.py`.
#
# To check and time a kernel of yours against its `jnp` equivalent, write it down as an operator:
# `suites/ops/add/` is the shortest example.

# %%
if ON_GPU:
    print("everything ran on the GPU")
else:
    print(f"{launches} calls ran in Numba's simulator; {len(passed_over)} parts need a GPU: {', '.join(passed_over)}")
    assert launches
