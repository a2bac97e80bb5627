# mypy: ignore-errors
# %% [markdown]
# # Warp kernels as JAX operations
#
# You write what one thread does, NVIDIA Warp compiles it for the CPU or the GPU, and `bridge` lets XLA run the
# machine code: in a loop on the host, or launched on XLA's own stream. No Python runs during the call. Warp also
# generates the kernel's adjoint, so `jax.grad` works without a rule of yours.
#
# Every claim below is followed by code that shows it and, mostly, by an `assert` that would fail if it were
# wrong. `numba_cpu.py` and `numba_gpu.py` beside this file are about Numba's kernels.
#
# 1. When Warp is the language to choose
# 2. Setting up, with a GPU or without
# 3. A first kernel, and calling it: `jax_kernel`
# 4. Launch dimensions and output dimensions
# 5. Vectors, values, and arrays of one element
# 6. Outputs, or in/out arguments
# 7. Under `jax.jit`, in loops, and in place
# 8. `jax.vmap`
# 9. Gradients
# 10. Kernels for any dtype: generators and type helpers
# 11. One operator, Warp beside Numba: `XLACustomKernel`
# 12. Spikes through sparse synapses, and training them
# 13. When something is wrong

# %% [markdown]
# ## 1. When Warp is the language to choose
#
# | | Warp | Numba | Numba-CUDA |
# |---|---|---|---|
# | runs on | CPU and GPU, from one source | CPU | GPU |
# | on the CPU | one thread, for development and tests | one thread or all cores | - |
# | derivatives | generated | a rule of yours | a rule of yours |
# | vectors, matrices, quaternions | types of the language | by hand | by hand |
# | types | strict: nothing is converted silently | inferred, converted | inferred, converted |
# | threads that work together | tiles | - | shared memory, barriers |
#
# Geometry, simulation, and whatever needs a gradient are at home in Warp. For a fast kernel on the CPU, register
# one in Numba beside it (section 11).

# %% [markdown]
# ## 2. Setting up, with a GPU or without
#
# Warp comes with the package. This page runs on the GPU if JAX has one, else on the CPU; nothing in it depends on
# which. Warp announces itself on the standard output unless it is told otherwise before its first use.

# %%
import time

import jax
import jax.numpy as jnp
import numba
import numpy as np
import warp as wp
from jax.test_util import check_grads

import bridge
from bridge import XLACustomKernel, jax_kernel, jaxinfo_to_warpinfo, jaxtype_to_warptype, numba_kernel

if hasattr(wp, "LOG_WARNING"):
    wp.config.log_level = wp.LOG_WARNING
else:  # older releases
    wp.config.quiet = True

ON_GPU = jax.default_backend() == "gpu"
random = np.random.default_rng(7)
print(f"bridge {bridge.__version__}, jax {jax.__version__}, Warp {wp.__version__}, on {jax.devices()[0].device_kind}")


# %% [markdown]
# Helpers for this page: the specification of a float32 array, the message of an error that is expected, and the
# number of native calls in a compiled program.


# %%
def f32(*shape):
    return jax.ShapeDtypeStruct(shape, jnp.float32)


def message_of(error, call):
    try:
        jax.block_until_ready(call())
    except error as caught:
        return str(caught)
    raise AssertionError(f"expected {error.__name__}")


def kernel_calls(function, *args):
    target = "bridge_cuda" if ON_GPU else "bridge_cpu"
    return jax.jit(function).lower(*args).compile().as_text().count(f'custom_call_target="{target}"')


# %% [markdown]
# ## 3. A first kernel, and calling it: `jax_kernel`
#
# A kernel is a function under `wp.kernel` whose parameters are annotated: the inputs, then the outputs. In an
# annotation `float` is float32 and `int` is int32. `wp.tid()` is the index of the thread; here each thread makes
# one element. The kernel returns nothing, and its threads together assign *every* element of *every* output: an
# output starts with whatever its memory held before. Inputs are not written to.
#
# Warp compiles all kernels of a Python module together, and again whenever one is added. `module="unique"` gives a
# kernel a module of its own, which in a page like this one saves a lot of waiting. Warp keeps what it has compiled
# in a cache on disk.


# %%
@wp.kernel(module="unique")
def softsign(x: wp.array(dtype=float), out: wp.array(dtype=float)):
    i = wp.tid()
    out[i] = x[i] / (1.0 + wp.abs(x[i]))


x = jnp.asarray(random.normal(size=1000), jnp.float32)

softsign_fn = jax_kernel(softsign)
results = softsign_fn(x)
assert isinstance(results, list)
assert isinstance(results[0], jax.Array)
np.testing.assert_allclose(results[0], x / (1 + jnp.abs(x)), rtol=1e-6)

# %% [markdown]
# The function takes the inputs and returns a list of the outputs, also of a single one. The kernel is compiled
# when JAX compiles the call. Sizes are not part of its machine code, so another size does not compile it again.

# %%
head = x[:10]
start = time.perf_counter()
(y,) = softsign_fn(head)
print(f"another size took {1e3 * (time.perf_counter() - start):.0f} ms")
np.testing.assert_array_equal(y, results[0][:10])
assert kernel_calls(softsign_fn, x) == 1


# %% [markdown]
# ## 4. Launch dimensions and output dimensions
#
# ```python
# jax_kernel(kernel, num_outputs=1, vmap_method=None, launch_dims=None, output_dims=None, in_out_argnames=None, ...)
# ```
#
# `launch_dims` is the number of threads along each dimension, up to four of them; by default the shape of the first
# array. `output_dims` is the shape of the outputs, one for all or a dict by name; by default the launch dimensions.
# So neither is needed element by element. This kernel needs both: a thread for each row, and two outputs.


# %%
@wp.kernel(module="unique")
def row_ranges(x: wp.array2d(dtype=float), low: wp.array(dtype=float), high: wp.array(dtype=float)):
    row = wp.tid()
    least = x[row, 0]
    most = x[row, 0]
    for column in range(1, x.shape[1]):
        least = wp.min(least, x[row, column])
        most = wp.max(most, x[row, column])
    low[row] = least
    high[row] = most


table = x.reshape(50, 20)
low, high = jax_kernel(row_ranges, num_outputs=2, launch_dims=50, output_dims={"low": 50, "high": 50})(table)
np.testing.assert_array_equal(low, table.min(axis=1))
np.testing.assert_array_equal(high, table.max(axis=1))

# %% [markdown]
# Dimensions can also be given to a single call, over those of the wrapper. Code that meets many shapes wraps the
# kernel once:

# %%
ranges_of = jax_kernel(row_ranges, num_outputs=2)
for rows in (4, 8):
    low, high = ranges_of(table[:rows], launch_dims=rows, output_dims=rows)
    np.testing.assert_array_equal(high - low, jnp.ptp(table[:rows], axis=1))


# %% [markdown]
# ## 5. Vectors, values, and arrays of one element
#
# An element may be a vector, a matrix or a quaternion. To JAX its extents are the last dimensions: an array of
# `wp.vec3` has the shape `(n, 3)`, while its launch and output dimensions count vectors.
#
# A parameter that is no array is a *value*. Values are static, like a shape: each value makes another program, but
# not another kernel. If a number varies from call to call, is traced or has a gradient, make it an array of one
# element. Here the axis of a rotation is a value, and its angle is an array.


# %%
@wp.kernel(module="unique")
def rotate(points: wp.array(dtype=wp.vec3), angle: wp.array(dtype=float), axis: wp.vec3, out: wp.array(dtype=wp.vec3)):
    i = wp.tid()
    out[i] = wp.quat_rotate(wp.quat_from_axis_angle(axis, angle[0]), points[i])


@jax.jit
def rotate_in_jnp(points, angle, axis):
    """Rodrigues' formula."""
    axis = jnp.asarray(axis, jnp.float32)
    along = (points * axis).sum(axis=1, keepdims=True) * axis
    return along + (points - along) * jnp.cos(angle) + jnp.cross(axis, points) * jnp.sin(angle)


rotate_fn = jax_kernel(rotate, launch_dims=300)
points, angle, axis = x[:900].reshape(300, 3), jnp.full(1, 0.7), (0.6, 0.0, 0.8)
(rotated,) = rotate_fn(points, angle, axis)
assert rotated.shape == (300, 3)
np.testing.assert_allclose(rotated, rotate_in_jnp(points, angle, axis), atol=1e-5)
np.testing.assert_array_equal(rotate_fn(points, angle, wp.vec3(*axis))[0], rotated)  # a vector of Warp's does too


# %% [markdown]
# ## 6. Outputs, or in/out arguments
#
# Where threads add to a result rather than assign it, the result has to start from something. An *in/out argument*
# is passed by the caller and returned: name it in `in_out_argnames`. It counts in `num_outputs`, and comes before the
# pure outputs, in the kernel and among the results. Several threads may meet at one element, so they add with
# `wp.atomic_add`.


# %%
@wp.kernel(module="unique")
def deposit(mass: wp.array(dtype=float), cell: wp.array(dtype=int), density: wp.array(dtype=float)):
    i = wp.tid()
    wp.atomic_add(density, cell[i], mass[i])


CELLS = 16
mass = jnp.asarray(random.integers(1, 65, 1000) / 64, jnp.float32)  # sums of these are exact in any order
cell = jnp.asarray(random.integers(0, CELLS, 1000), jnp.int32)

deposit_fn = jax_kernel(deposit, in_out_argnames=["density"])
background = jnp.full(CELLS, 0.5)
(density,) = deposit_fn(mass, cell, background)
np.testing.assert_array_equal(density, background.at[cell].add(mass))
np.testing.assert_array_equal(background, 0.5)  # a JAX array never changes: the kernel was given a copy


# %% [markdown]
# ## 7. Under `jax.jit`, in loops, and in place
#
# Kernels mix with other operations, and inside a compiled loop a call costs about as much as calling a C++ function
# through XLA's foreign function interface. On a GPU XLA may record the launches into CUDA graphs.


# %%
@jax.jit
def centre_of_mass(mass, cell):
    (density,) = deposit_fn(mass, cell, jnp.zeros(CELLS))
    return (density * jnp.arange(CELLS)).sum() / density.sum()


np.testing.assert_allclose(centre_of_mass(mass, cell), (mass * cell).sum() / mass.sum(), rtol=1e-5)


@jax.jit
def squash(x, times):
    return jax.lax.fori_loop(0, times, lambda _, x: softsign_fn(x)[0], x)


np.testing.assert_allclose(squash(x, 1000), x / (1 + 1000 * jnp.abs(x)), rtol=1e-3)
jax.block_until_ready(squash(x, 1))
start = time.perf_counter()
jax.block_until_ready(squash(x, 10_000))
print(f"{1e2 * (time.perf_counter() - start):.2f} us for each of 10000 calls in a loop")

# %% [markdown]
# An in/out argument is copied only where somebody still needs it. Give the array away with `donate_argnums`, and the
# kernel works in its memory. The carry of a loop needs no donation; XLA updates it in place by itself.

# %%
deposit_more = jax.jit(lambda mass, cell, density: deposit_fn(mass, cell, density)[0], donate_argnums=2)
density = background + 0
address = density.unsafe_buffer_pointer()
density = deposit_more(mass, cell, density)
assert density.unsafe_buffer_pointer() == address
thrice = jax.lax.fori_loop(0, 3, lambda _, density: deposit_fn(mass, cell, density)[0], background)
np.testing.assert_array_equal(thrice - background, 3 * (density - background))

# %% [markdown]
# ## 8. `jax.vmap`
#
# The kernel is written for one element of a batch and sees its shapes only. The batch is one call, in which native
# code launches the kernel for each element: over any axis, nested, with operands that are not batched, which are not
# copied unless they are in/out arguments. `vmap_method` is there for those who want it otherwise.

# %%
angles = jnp.linspace(0, 2, 5)[:, None]
turned = jax.vmap(lambda points, angle: rotate_fn(points, angle, axis)[0], in_axes=(None, 0))
assert turned(points, angles).shape == (5, 300, 3)
np.testing.assert_allclose(turned(points, angles)[3], rotate_in_jnp(points, angles[3], axis), atol=1e-5)
assert kernel_calls(turned, points, angles) == 1

groups = jax.vmap(deposit_fn, in_axes=(0, 0, None))(mass.reshape(4, 250), cell.reshape(4, 250), jnp.zeros(CELLS))[0]
np.testing.assert_array_equal(groups.sum(axis=0), density - background)


# %% [markdown]
# A launch for each element suits a small batch of large arrays. For a large batch of small ones, give the kernel one
# more dimension of threads: `row, column = wp.tid()`.
#
# ## 9. Gradients
#
# From each kernel Warp generates a second one, its adjoint, which carries derivatives from the results back to the
# arguments. `jax.grad` and `jax.vjp` use it; there is nothing to switch on, and calls without a gradient pay nothing.
# Every floating-point *array* among the arguments gets a derivative; values have none.


# %%
def spread(points, angle):
    return (rotate_fn(points, angle, axis)[0][:, 0] ** 2).sum()


def spread_in_jnp(points, angle):
    return (rotate_in_jnp(points, angle, axis)[:, 0] ** 2).sum()


bars = jax.jit(jax.grad(spread, argnums=(0, 1)))(points, angle)
expected = jax.jit(jax.grad(spread_in_jnp, argnums=(0, 1)))(points, angle)
for bar, expected_bar in zip(bars, expected, strict=True):
    np.testing.assert_allclose(bar, expected_bar, rtol=1e-4, atol=1e-4)

# %% [markdown]
# An in/out argument has a gradient too. `deposit` adds to the density, so the derivative of the initial density does
# not change. Each mass gets the derivative of the cell that it was added to.

# %%
potential = jnp.arange(CELLS, dtype=jnp.float32)
energy = jax.grad(lambda mass, density: (potential * deposit_fn(mass, cell, density)[0]).sum(), argnums=(0, 1))
mass_bar, density_bar = energy(mass, background)
np.testing.assert_array_equal(mass_bar, potential[cell])
np.testing.assert_array_equal(density_bar, potential)

# %% [markdown]
# They work under `jax.jit`, `jax.vmap` and in loops like the kernel itself. Only the first derivative exists, in
# reverse mode: an adjoint has no adjoint.

# %%
slopes = jax.vmap(jax.grad(lambda x: softsign_fn(x[None])[0].sum()))(x)
np.testing.assert_allclose(slopes, 1 / (1 + jnp.abs(x)) ** 2, rtol=1e-5)
message_of(bridge.DifferentiationError, lambda: jax.grad(jax.grad(lambda x: softsign_fn(x[None])[0].sum()))(1.0))

# %% [markdown]
# ### Where an adjoint is wrong
#
# The adjoint follows a thread backwards without a record of it. To find the numbers it needs, it repeats the
# statements of the kernel, except loops whose length is known only when they run. So in the body of a kernel such a
# loop may add up numbers. A maximum, a product or any other value that the loop carries may have a wrong derivative,
# and so may everything but a sum that is computed from it. So the gradient of a kernel with such a loop is refused.
# With `enable_backward=True` you get Warp's gradient; compare it with finite differences before you rely on it. That of
# `row_ranges` is wrong:

# %%
highest = jax_kernel(row_ranges, num_outputs=2, launch_dims=4, output_dims=4)
message_of(bridge.DifferentiationError, lambda: jax.grad(lambda x: highest(x)[1].sum())(table[:4]))
highest = jax_kernel(row_ranges, num_outputs=2, launch_dims=4, output_dims=4, enable_backward=True)
message_of(AssertionError, lambda: check_grads(lambda x: highest(x)[1], (table[:4],), 1, ["rev"], rtol=0.02, atol=0.02))


# %% [markdown]
# A function under `wp.func` *is* repeated, so a sum that it returns can be used like any other number. (A variable that
# a loop changes starts as `wp.float32(0.0)`, because Warp takes a bare literal for a constant.) A loop of constant
# length, up to 16 iterations, is unrolled, and has right derivatives whatever it does.


# %%
@wp.func
def sum_of_squares(x: wp.array2d(dtype=float), row: int):
    total = wp.float32(0.0)
    for column in range(x.shape[1]):
        total += x[row, column] * x[row, column]
    return total


@wp.kernel(module="unique")
def row_norms(x: wp.array2d(dtype=float), norm: wp.array(dtype=float)):
    row = wp.tid()
    norm[row] = wp.sqrt(sum_of_squares(x, row))


norms = jax_kernel(row_norms, launch_dims=4, output_dims=4, enable_backward=True)
check_grads(lambda x: norms(x)[0], (table[:4],), 1, ["rev"], rtol=0.02, atol=0.02)
norm_bar = jax.grad(lambda x: norms(x)[0].sum())(table[:4])
np.testing.assert_allclose(norm_bar, table[:4] / norms(table[:4])[0][:, None], rtol=1e-5)

# %% [markdown]
# Nor can an adjoint follow a number from thread to thread: an element that one thread writes and another one reads, in
# the same launch. Use two kernels there.
#
# If you need no adjoint, use `@wp.kernel(enable_backward=False)`: compiling the adjoint takes about as long as
# compiling the kernel. With `jax_kernel(..., enable_backward=False)` the adjoint exists but is not used, so that you
# can write your own `jax.custom_vjp`.

# %%
fixed = jax_kernel(softsign, enable_backward=False)
np.testing.assert_array_equal(fixed(x)[0], results[0])
message_of(bridge.DifferentiationError, lambda: jax.grad(lambda x: fixed(x)[0].sum())(x))


# %% [markdown]
# ## 10. Kernels for any dtype: generators and type helpers
#
# Warp converts nothing: the operands of `*` have one type, and a literal such as `0.5` is float32. So a kernel for
# several dtypes is made by a function, a *generator*, from the dtypes of a call. `jaxinfo_to_warpinfo` gives the
# annotation of an array, of which only dtype and rank matter; `jaxtype_to_warptype` gives the scalar type, to
# convert with. Values from the kernel's closure become constants.

# %%
annotation = jaxinfo_to_warpinfo(jax.ShapeDtypeStruct((8, 4), jnp.float16))
assert (annotation.dtype, annotation.ndim) == (wp.float16, 2)
assert jaxtype_to_warptype(jnp.float32) is wp.float32
assert jaxtype_to_warptype(jnp.bool_) is wp.bool
print(message_of(bridge.SignatureError, lambda: jaxtype_to_warptype(jnp.complex64)))


# %%
def leaky(outs, slope):
    vector, scalar = jaxinfo_to_warpinfo(outs[0]), jaxtype_to_warptype(outs[0].dtype)

    @wp.kernel(module="unique")
    def leaky_relu(x: vector, out: vector):
        i = wp.tid()
        out[i] = wp.max(x[i], scalar(slope) * x[i])

    return jax_kernel(leaky_relu)


for dtype in (jnp.float32, jnp.float16):
    z = x.astype(dtype)
    (y,) = leaky([z], slope=0.25)(z)
    assert y.dtype == dtype
    np.testing.assert_array_equal(y, jnp.where(z > 0, z, z * 0.25))

# %% [markdown]
# Warp and the bridge go by a kernel's content: made again with the same types and constants, it is not compiled again.

# %%
start = time.perf_counter()
leaky([x], slope=0.25)(x)
print(f"making leaky_relu again and calling it took {1e3 * (time.perf_counter() - start):.0f} ms")


# %% [markdown]
# ## 11. One operator, Warp beside Numba: `XLACustomKernel`
#
# An operator has a name, takes static parameters, and has kernels for its platforms. What you register is a
# generator: it receives the parameters and `outs`, a tuple of specs, and returns the function that handles the
# arrays. `def_warp_kernel` registers one for GPUs and for the CPU.

# %%
leaky_op = XLACustomKernel("leaky")
leaky_op.def_warp_kernel(leaky)
assert leaky_op.defaults == {"cuda": "warp", "cpu": "warp"}

expected = jnp.where(x > 0, x, 0.25 * x)
np.testing.assert_array_equal(leaky_op(x, outs=f32(1000), slope=0.25), expected)
np.testing.assert_array_equal(leaky_op(x, outs=[f32(1000)], slope=0.25)[0], expected)


# %% [markdown]
# `outs` decides the structure of the result: a struct gives an array, a list gives a list. On the CPU Warp is a last
# resort: register a kernel of Numba, and it becomes the default there. `backend` chooses for a single call.


# %%
def leaky_numba(outs, slope):
    @numba.njit
    def leaky_relu(x, out):
        for i in range(out.size):
            out[i] = max(x[i], slope * x[i])

    return numba_kernel(leaky_relu, outs[0])


leaky_op.def_numba_kernel(leaky_numba)
assert leaky_op.defaults == {"cuda": "warp", "cpu": "numba"}

on_cpu = jax.device_put(x, jax.devices("cpu")[0])
by_backend = {name: leaky_op(on_cpu, outs=f32(1000), slope=0.25, backend=name) for name in (None, "numba", "warp")}
for name, result in by_backend.items():
    np.testing.assert_array_equal(result, expected, err_msg=str(name))

# %% [markdown]
# Which kernel runs is known when JAX lowers the program for a platform, and derivatives are taken before. So an
# operator has none, whatever its kernels are, until you declare one, as the next section does with a kernel's adjoint.

# %%
slope_at = jax.grad(lambda x: leaky_op(x, outs=f32(1000), slope=0.25).sum())
message_of(bridge.DifferentiationError, lambda: slope_at(x))
np.testing.assert_array_equal(jax.grad(lambda x: leaky([x], slope=0.25)(x)[0].sum())(x), jnp.where(x > 0, 1, 0.25))


# %% [markdown]
# ## 12. Spikes through sparse synapses, and training them
#
# A neuron that spikes adds the weight of each of its synapses to the current of the neuron behind it. The synapses
# are stored in compressed sparse rows: neuron `i` has the entries `starts[i]` to `starts[i + 1]` of `weights` and
# `targets`. Few neurons spike at a time, so there is a thread for each neuron, and most end at once. Two neurons
# may have one target: the sum is atomic, its order is not fixed, and on a GPU the last digits may differ from run to
# run.


# %%
@wp.kernel(module="unique")
def propagate(
    weights: wp.array(dtype=float),
    targets: wp.array(dtype=int),
    starts: wp.array(dtype=int),
    spiked: wp.array(dtype=bool),
    current: wp.array(dtype=float),
):
    i = wp.tid()
    if spiked[i]:
        for k in range(starts[i], starts[i + 1]):
            wp.atomic_add(current, targets[k], weights[k])


def propagate_warp(outs):
    def call(weights, targets, starts, spiked):
        # The loop only adds up, so its gradient is right.
        kernel = jax_kernel(propagate, launch_dims=spiked.shape, in_out_argnames=["current"], enable_backward=True)
        return kernel(weights, targets, starts, spiked, jnp.zeros(outs[0].shape, outs[0].dtype))

    return call


synapses_op = XLACustomKernel("synapses")
synapses_op.def_warp_kernel(propagate_warp)

BEFORE, AFTER = 1000, 400
connected = random.random((BEFORE, AFTER)) < 0.05
connected[10:20] = False  # some neurons have no synapses
at_before, at_after = connected.nonzero()
weights = jnp.asarray(random.normal(size=at_before.size), jnp.float32)
targets = jnp.asarray(at_after, jnp.int32)
starts = jnp.asarray(np.searchsorted(at_before, np.arange(BEFORE + 1)), jnp.int32)
spiked = jnp.asarray(random.random(BEFORE) < 0.1)


@jax.jit
def currents(weights, spiked):
    return synapses_op(weights, targets, starts, spiked, outs=f32(AFTER))


dense = np.zeros((BEFORE, AFTER))
dense[at_before, at_after] = weights
np.testing.assert_allclose(currents(weights, spiked), np.float64(spiked) @ dense, atol=1e-5)
assert not currents(weights, jnp.zeros(BEFORE, bool)).any()
print(f"{int(spiked.sum())} of {BEFORE} neurons spike, through {weights.size} of {dense.size} possible synapses")

# %% [markdown]
# By default a kernel is launched over its first array, here the weights. So the launch dimensions are given. The
# initial current is made inside the program, so the kernel adds to it in place.
#
# The adjoint of the kernel hands the derivative of each current to the synapses that contributed, which is all that
# learning needs. `def_vjp` makes it the operator's derivative: whichever kernel ran forward, Warp's adjoint runs
# backward. `jax.vjp` calls the forward kernel as well, but under `jax.jit` XLA drops a call whose result nobody uses.


# %%
def forward(*arrays, outs):
    return synapses_op(*arrays, outs=outs), arrays


def backward(arrays, cotangents, outs):
    weights, targets, starts, spiked = arrays
    _, pull_back = jax.vjp(lambda weights: propagate_warp(outs)(weights, targets, starts, spiked), weights)
    return *pull_back(cotangents), None, None, None  # integers and booleans have no gradient


synapses_op.def_vjp(forward, backward)
wanted = jnp.asarray(random.normal(size=AFTER), jnp.float32)


def loss(weights):
    current = synapses_op(weights, targets, starts, spiked, outs=f32(AFTER))
    return ((current - wanted) ** 2).mean()


weights_bar = jax.jit(jax.grad(loss))(weights)
current_bar = 2 * (currents(weights, spiked) - wanted) / AFTER
np.testing.assert_allclose(weights_bar, jnp.where(spiked[at_before], current_bar[at_after], 0), atol=1e-6)
assert kernel_calls(jax.grad(loss), weights) == 2

# %% [markdown]
# Gradient descent finds weights for currents that are wanted, inside one program. Synapses of neurons that were silent
# keep their weights, and a neuron that is reached by none of those that spike keeps its current of zero.


# %%
@jax.jit
def train(weights):
    return jax.lax.fori_loop(0, 200, lambda _, weights: weights - 20 * jax.grad(loss)(weights), weights)


trained = train(weights)
reached = np.isin(np.arange(AFTER), at_after[np.asarray(spiked)[at_before]])
np.testing.assert_allclose(currents(trained, spiked)[reached], wanted[reached], atol=1e-3)
np.testing.assert_array_equal(trained[~spiked[at_before]], weights[~spiked[at_before]])
print(f"the loss fell from {loss(weights):.3f} to {loss(trained):.1e}")

# %% [markdown]
# ## 13. When something is wrong
#
# Mistakes in a call are found before anything runs, when JAX traces it, and mistakes in a kernel when it is compiled.
# All of these are a `bridge.BridgeError`, and say what was expected.

# %%
print(message_of(bridge.SignatureError, lambda: softsign_fn(x.astype(jnp.int32))))
print(message_of(bridge.SignatureError, lambda: softsign_fn(table)))
print(message_of(bridge.SignatureError, lambda: softsign_fn(x, x)))
print(message_of(bridge.SignatureError, lambda: ranges_of(table)))

# %% [markdown]
# A value must be known when JAX traces. One that is an argument of a function under `jax.jit` is not, unless it is
# static. The same holds for the parameters of an operator.

# %%
scaled = jax.jit(lambda points, axis: rotate_fn(points, angle, axis))
print(message_of(bridge.ParameterError, lambda: scaled(points, jnp.array(axis))))

scaled = jax.jit(lambda points, axis: rotate_fn(points, angle, axis), static_argnames="axis")
np.testing.assert_array_equal(scaled(points, axis=axis)[0], rotated)

leaky_jit = jax.jit(lambda x, slope: leaky_op(x, outs=f32(1000), slope=slope))
print(message_of(bridge.ParameterError, lambda: leaky_jit(x, slope=0.25)))

# %% [markdown]
# No threads would leave the outputs unwritten, so that is refused. Beyond that nobody can tell which elements a kernel
# assigns: see to it that the threads cover the output.

# %%
print(message_of(bridge.LaunchError, lambda: jax_kernel(softsign, launch_dims=0, output_dims=1000)(x)))
assert softsign_fn(x[:0])[0].shape == (0,)  # nothing to write


# %% [markdown]
# Warp's own message says where a kernel does not compile; most often two types differ.


# %%
@wp.kernel(module="unique")
def mixed(x: wp.array(dtype=float), out: wp.array(dtype=float)):
    i = wp.tid()
    out[i] = 2 * x[i]


message = message_of(bridge.KernelCompileError, lambda: jax_kernel(mixed)(x))
assert "['int32', 'float32']" in message
print(message)

# %% [markdown]
# A kernel that writes to an input would change a JAX array under the eyes of everyone who holds it. Make it an in/out
# argument instead. Functions that the kernel calls are checked too. Indices are not, as in CUDA.


# %%
@wp.kernel(module="unique")
def overwrites(x: wp.array(dtype=float), out: wp.array(dtype=float)):
    i = wp.tid()
    x[i] = 0.0
    out[i] = x[i]


print(message_of(bridge.SignatureError, lambda: jax_kernel(overwrites)(x)))

# %% [markdown]
# ## What to remember
#
# - Inputs, then outputs, all annotated; `wp.tid()`; assign every element; return nothing.
# - `launch_dims` counts threads, `output_dims` elements; results come as a list.
# - Arrays vary, values are static. To add rather than assign: an in/out argument and `wp.atomic_add`.
# - Gradients are there, of every array of floats; check them where a kernel has loops.
# - `jit`, loops, `vmap`, `jax.shard_map` and `jax.export` work as they are, the last as section 16 of `numba_cpu.py`
#   shows.
# - `XLACustomKernel.def_warp_kernel` for GPUs, with a kernel of Numba beside it for the CPU.
#
# To check and time a kernel of yours against its `jnp` equivalent, write it down as an operator:
# `suites/ops/add/` is the shortest example.
