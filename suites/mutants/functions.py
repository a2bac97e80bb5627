"""Holds good kernels in JAX functions, or with rules, that are wrong: batches, derivatives, and work left to XLA."""

import functools

import jax
import jax.numpy as jnp
import numba
from jax.custom_batching import custom_vmap

import bridge
from bridge import XLACustomKernel, numba_kernel
from suites.backends import BACKENDS
from suites.backends.custom_kernel import CustomKernel
from suites.backends.warp import WarpCallable
from suites.declare.aspects import Gradient
from suites.kernels.warp.blocks import scalar, wp
from suites.mutants.mutant import table
from suites.ops.add import OPERATOR as ADD
from suites.ops.add.warp import add_warp
from suites.ops.matvec import OPERATOR as MATVEC
from suites.ops.split_sign import OPERATOR as SPLIT_SIGN
from suites.ops.split_sign.warp import split_sign_warp
from suites.ops.sum import OPERATOR as SUM

MUTANTS, broken = table(BACKENDS["warp"])


def _around(of, caught_by, fault, **fields):
    """Adds a function that takes the inputs and outputs of a call, and returns the function that makes it."""
    return broken(of, caught_by, fault, make=lambda it: WarpCallable(it, calls=1), **{"dtypes": ("float32",)} | fields)


def _add(outs):
    return bridge.jax_kernel(add_warp(str(outs[0].dtype)))


# Functions that let JAX do the work.


@_around(ADD, "compiled", "XLA adds, the kernel is never called")
def without_kernel(inputs, outs):
    return lambda x, y: [x + y]


# Functions that do not fit into programs.


@_around(ADD, "export", "calls back to Python, which cannot be exported")
def host_callback(inputs, outs):
    kernel = _add(outs)

    def call(x, y):
        (total,) = kernel(x, y)
        jax.debug.callback(lambda total: None, total)
        return [total]

    return call


@_around(ADD, "x64", "adds a default integer, which has 64 bits in JAX's x64 mode")
def default_dtype(inputs, outs):
    kernel = _add(outs)
    return lambda x, y: [kernel(x, y)[0] + jnp.zeros(x.shape)]


@functools.cache
def _add_to_warp(dtype):
    vector = wp.array(dtype=scalar(dtype))

    @wp.kernel(module="unique", enable_backward=False)
    def add_to(total: vector, x: vector, start: wp.array(dtype=wp.int32), out: vector):
        running = total[0]
        for i in range(start[0], wp.min(start[0] + 64, x.shape[0])):
            running += x[i]
        out[0] = running

    return add_to


@_around(SUM, "shard", "a loop whose carry begins the same on all devices, which shard_map refuses")
def unvarying_carry(inputs, outs):
    kernel = bridge.jax_kernel(_add_to_warp(str(outs[0].dtype)))
    steps = max(-(-inputs[0].shape[0] // 64), 1)

    def call(x):
        starts = 64 * jnp.arange(steps, dtype=jnp.int32)[:, None]
        total, _ = jax.lax.scan(lambda total, start: (kernel(total, x, start)[0], None), jnp.zeros(1, x.dtype), starts)
        return [total]

    return call


# Batches.


def _batched(of, caught_by, fault, kernel_of):
    """Adds a batching rule, which takes the kernel, the size of the batch, which operands are batched, and these."""

    def add(rule):
        @_around(of, caught_by, fault, name=rule.__name__)
        def make(inputs, outs):
            kernel = kernel_of(str(inputs[0].dtype))
            call = custom_vmap(lambda *operands: list(kernel(*operands)))

            @call.def_vmap
            def _(axis_size, batched, *operands):
                return rule(kernel, axis_size, batched, *operands), [True] * len(outs)

            return call

        return rule

    return add


@_batched(
    SPLIT_SIGN, "vmap", "strides of the batch are transposed",
    lambda dtype: bridge.jax_kernel(split_sign_warp(dtype), num_outputs=2),
)  # fmt: skip
def transposed_batch(kernel, axis_size, batched, x):
    return [out.reshape(x.shape[::-1]).T for out in kernel(x.reshape(-1))]


@_batched(
    SPLIT_SIGN, "vmap0", "looks for the largest element of a batch, which may have none",
    lambda dtype: bridge.jax_kernel(split_sign_warp(dtype), num_outputs=2),
)  # fmt: skip
def at_least_one(kernel, axis_size, batched, x):
    return jax.vmap(kernel)(x + 0 * x.max())


@functools.cache
def _looking_ahead():
    vector = wp.array(dtype=wp.float32)

    @wp.kernel(module="unique", enable_backward=False)
    def twice(x: vector, out: vector):
        i = wp.tid()
        ahead = x[i + 1]
        out[i] = x[i] + x[i]
        if ahead == 123.456:
            out[i] = x[i]

    return bridge.jax_kernel(twice)


@_batched(
    SPLIT_SIGN, "guards", "a batch is read one element past its end",
    lambda dtype: bridge.jax_kernel(split_sign_warp(dtype), num_outputs=2),
)  # fmt: skip
def past_the_batch(kernel, axis_size, batched, x):
    return jax.vmap(kernel)(_looking_ahead()(x.reshape(-1))[0].reshape(x.shape) / 2)


# Derivatives.


def _square(backward):
    """A square by a kernel, with a derivative by another function."""
    call = jax.custom_vjp(lambda x: _product()(x, x)[0])
    call.defvjp(lambda x: (call(x), x), backward)
    return lambda x: [call(x)]


@functools.cache
def _product():
    vector = wp.array(dtype=wp.float64)

    @wp.kernel(module="unique", enable_backward=False)
    def product(x: vector, y: vector, out: vector):
        i = wp.tid()
        out[i] = x[i] * y[i]

    return bridge.jax_kernel(product)


def square(x):
    return x * x


_SQUARED = {"dtypes": ("float64",), "gradient": Gradient(inputs=(0,))}


@_around(square, "grad grad", "the derivative has itself the derivative zero", **_SQUARED)
def constant_derivative(inputs, outs):
    return _square(lambda x, g: (2 * jax.lax.stop_gradient(x) * g,))


@_around(square, "vmap grad", "a batch of derivatives is in reverse order", **_SQUARED)
def reversed_derivatives(inputs, outs):
    backward = custom_vmap(lambda x, g: 2 * _product()(x, g)[0])
    backward.def_vmap(lambda size, batched, x, g: (jax.vmap(lambda x, g: 2 * _product()(x, g)[0])(x, g)[::-1], True))
    return _square(lambda x, g: (backward(x, g),))


@jax.custom_jvp
def halved(x):
    """A square that claims to have half of its derivative."""
    return x * x


halved.defjvps(lambda dx, out, x: x * dx)


@_around(halved, "grad diff", "the derivative is half of the true one, and that of the reference too", **_SQUARED)
def wrong_like_the_reference(inputs, outs):
    return _square(lambda x, g: (_product()(x, g)[0],))


# Rules of custom operators, around good Numba kernels.


def _custom(of, caught_by, fault, gradient=None):
    """Adds an operator with the good Numba kernel of another one, to which the decorated function adds a rule."""

    def add(rule):
        custom = XLACustomKernel(of.name)
        dispatcher = of.kernels[BACKENDS["numba"]].dispatcher
        custom.def_numba_kernel(lambda outs: numba_kernel(dispatcher, list(outs)))
        rule(custom)
        fields = {"name": rule.__name__, "dtypes": ("float32",), "gradient": gradient, "backend": BACKENDS["numba"]}
        broken(of, caught_by, fault, **fields)(CustomKernel(custom, "numba"))
        return rule

    return add


@_custom(MATVEC, "grad", "the rule leaves the last row out of a sum", Gradient())
def lost_row(custom):
    def backward(saved, cotangents, outs):
        (A, x), (g,) = saved, cotangents
        return jnp.outer(g, x), A[:-1].T @ g[:-1]

    custom.def_vjp(lambda A, x, outs: (custom(A, x, outs=list(outs)), (A, x)), backward)


@_custom(MATVEC, ("grad", "jvp"), "the rule of the transpose is twice too large", Gradient())
def transposed_twice(custom):
    custom.def_transpose(1, lambda cotangents, A, outs: 2 * (A.T @ cotangents[0]))


@_custom(ADD, "jvp", "the rule of forward mode leaves the second tangent out", Gradient())
def lost_tangent(custom):
    custom.def_jvp(lambda primals, tangents, outs: (custom(*primals, outs=list(outs)), [tangents[0]]))


@_custom(ADD, "vmap", "the batching rule takes a shared input for a batch")
def shared_as_batched(custom):
    def rule(extent, is_batched, x, y, outs):
        y = jnp.broadcast_to(y[:1], (extent, *outs[0].shape)) if not is_batched[1] else y
        x = x if is_batched[0] else jnp.broadcast_to(x, (extent, *outs[0].shape))
        return [x + y]

    custom.def_batching(rule)


@numba.njit
def _running_sum(x, out):
    total = x.dtype.type(0)
    for i in range(x.size):
        total += x[i]
        out[i] = total


_SPLIT_SCAN = XLACustomKernel("split_scan")
_SPLIT_SCAN.def_numba_kernel(lambda outs: numba_kernel(_running_sum, list(outs)))
_SPLIT_SCAN.def_partitioning("i -> i", split="i")
broken(
    lambda x: jnp.cumsum(x), "shard", "the rule lets devices have parts of a running sum", name="split_scan",
    backend=BACKENDS["numba"],
)(CustomKernel(_SPLIT_SCAN, "numba"))  # fmt: skip
